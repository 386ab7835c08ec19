package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/cofferhq/coffer/internal/sandbox"
)

// maxLog is how much of a detached program's output is kept: one file of this size
// being written, and the one before it. The program is a stranger and may print for
// ever.
const maxLog = 16 << 20

// LogFile is where the output of detached programs is kept.
func LogFile(sb *sandbox.Sandbox) string { return filepath.Join(sb.Logs(), "output.log") }

// LastTurn is where in the log the program begins that was started last. Where that is further back
// than the log, or not known, it is 0.
func LastTurn(sb *sandbox.Sandbox) int64 {
	text, err := os.ReadFile(turnFile(LogFile(sb)))
	if err != nil {
		return 0
	}
	at, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0
	}
	return max(at, 0)
}

// turnFile is beside a log, and says where in it the last program begins. It is a file of its own
// because programs may print anything into the log.
func turnFile(log string) string { return filepath.Join(filepath.Dir(log), "turn") }

// OpenLog opens a log, and makes its directory if need be.
func OpenLog(path string) (*Log, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	l := &Log{path: path}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

// A Log is a file that starts anew when it is full, keeping the one before.
type Log struct {
	mu   sync.Mutex
	path string
	f    *os.File
	size int64
}

func (l *Log) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	l.f, l.size = f, info.Size()
	return nil
}

// Write never fails: a program is not ended because its words cannot be kept.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(p)) > maxLog {
		l.f.Close()
		err := os.Rename(l.path, l.path+".1")
		if err = errors.Join(err, l.open(), l.mark(0)); err != nil {
			fmt.Fprintln(os.Stderr, "start a new log:", err)
		}
	}
	n, _ := l.f.Write(p)
	l.size += int64(n)
	return len(p), nil
}

// Begin writes the line with which a program's output begins, and where that is.
func (l *Log) Begin(line string) {
	l.mu.Lock()
	err := l.mark(l.size)
	l.mu.Unlock()
	if err != nil {
		fmt.Fprintln(os.Stderr, "note where a program begins in the log:", err)
	}
	_, _ = l.Write([]byte(line))
}

// mark notes where the last program's output begins. The lock is held.
func (l *Log) mark(at int64) error {
	return os.WriteFile(turnFile(l.path), []byte(strconv.FormatInt(at, 10)), 0o600)
}

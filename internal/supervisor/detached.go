package supervisor

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// maxLog is how much of a detached program's output is kept: one file of this size
// being written, and the one before it. The program is a stranger and may print for
// ever.
const maxLog = 16 << 20

// LogFile is where the output of detached programs is kept.
func LogFile(sb *sandbox.Sandbox) string { return filepath.Join(sb.Logs(), "output.log") }

// detached runs a program whose client does not wait for it.
func (s *Supervisor) detached(client net.Conn, e wire.Exec) {
	e.Log, e.Merged, e.TTY = false, true, nil
	log, err := openLog(LogFile(s.Sandbox))
	if err != nil {
		_ = wire.NewFrameWriter(client).Message(wire.Event{Failure: failure(err)})
		return
	}
	p, err := wire.Start(s, e)
	if err != nil {
		log.Close()
		_ = wire.NewFrameWriter(client).Message(wire.Event{Failure: failure(err)})
		return
	}
	_ = p.CloseInput()
	s.enter()
	err = p.WaitStart()
	go func() {
		defer s.leave()
		defer log.Close()
		defer p.Close()
		if err != nil {
			return
		}
		exit, err := p.Wait(log, log)
		if err != nil {
			fmt.Fprintf(log, "coffer: the program was ended with the sandbox\n")
		} else {
			fmt.Fprintf(log, "coffer: exit status %d\n", exit.Status())
		}
	}()
	answer := wire.Event{Started: &wire.Started{}}
	if err != nil {
		answer = wire.Event{Failure: failure(err)}
	}
	_ = wire.NewFrameWriter(client).Message(answer)
}

func failure(err error) *wire.Failure {
	if f, ok := err.(*wire.Failure); ok {
		return f
	}
	return &wire.Failure{Code: 125, Message: err.Error()}
}

// log is a file that starts anew when it is full, keeping the one before.
type log struct {
	mu   sync.Mutex
	path string
	f    *os.File
	size int64
}

func openLog(path string) (*log, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	l := &log{path: path}
	return l, l.open()
}

func (l *log) open() error {
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

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(p)) > maxLog {
		l.f.Close()
		if err := os.Rename(l.path, l.path+".1"); err != nil {
			return 0, err
		}
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	n, err := l.f.Write(p)
	l.size += int64(n)
	return n, err
}

func (l *log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Close()
}

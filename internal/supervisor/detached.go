package supervisor

import (
	"fmt"
	"io"
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
		_ = wire.WriteMessage(client, wire.Event{Failure: &wire.Failure{Code: 125, Message: err.Error()}})
		return
	}
	p, err := wire.Start(s, e)
	if err != nil {
		log.Close()
		_ = wire.WriteMessage(client, wire.Event{Failure: &wire.Failure{Code: 125, Message: err.Error()}})
		return
	}
	p.Stdin.Close()
	s.enter()
	var carrying sync.WaitGroup
	carrying.Go(func() { io.Copy(log, p.Stdout) })
	told := make(chan wire.Event, 1)
	go func() {
		defer s.leave()
		defer log.Close()
		defer p.Close()
		exit, err := p.Wait(func(pid int) { told <- wire.Event{Started: &wire.Started{PID: pid}} })
		carrying.Wait()
		switch f, never := err.(*wire.Failure); {
		case never:
			told <- wire.Event{Failure: f}
		case err != nil:
			fmt.Fprintf(log, "coffer: the program was ended with the sandbox\n")
		default:
			fmt.Fprintf(log, "coffer: exit status %d\n", exit.Status())
		}
	}()
	_ = wire.WriteMessage(client, <-told)
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

package supervisor

import (
	"errors"
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
	e.Log, e.NoInput, e.Merged, e.TTY = false, true, true, nil
	if !s.enter() {
		return // it can be tried again
	}
	s.Ran(&e)
	kept := s.beforeProgram()
	news, known := s.before()
	p, log, err := s.startDetached(e)
	answer := wire.NewFrameWriter(client)
	if err != nil {
		s.leave()
		if errors.Is(err, errEnding) {
			return
		}
		_ = answer.Message(wire.Event{Failure: failure(err)})
		return
	}
	_ = answer.Started()
	defer s.leave()
	defer p.Close()
	exit, err := p.Wait(log, log)
	s.syncSoon() // nobody else waits for its commits
	if err != nil {
		fmt.Fprintf(log, "coffer: %s\n", s.whyGone())
	} else {
		fmt.Fprintf(log, "coffer: exit status %d\n", exit.Status())
	}
	for _, n := range append(append(kept, news...), s.wrapUp(known, &e)...) {
		fmt.Fprintln(log, "coffer:", n)
	}
}

func (s *Supervisor) startDetached(e wire.Exec) (*wire.Process, *log, error) {
	log, err := s.openLog()
	if err != nil {
		return nil, nil, err
	}
	if !s.letIn() {
		return nil, nil, errEnding
	}
	defer s.handed()
	p, err := wire.Start(s, e)
	if err != nil {
		return nil, nil, err
	}
	if err := p.WaitStart(); err != nil {
		p.Close()
		return nil, nil, err
	}
	return p, log, nil
}

// openLog opens the log that all detached programs share.
func (s *Supervisor) openLog() (*log, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log != nil {
		return s.log, nil
	}
	path := LogFile(s.Sandbox)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	l := &log{path: path}
	if err := l.open(); err != nil {
		return nil, err
	}
	s.log = l
	return l, nil
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

// Write never fails: a program is not ended because its words cannot be kept.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(p)) > maxLog {
		l.f.Close()
		err := os.Rename(l.path, l.path+".1")
		if err = errors.Join(err, l.open()); err != nil {
			fmt.Fprintln(os.Stderr, "start a new log:", err)
		}
	}
	n, _ := l.f.Write(p)
	l.size += int64(n)
	return len(p), nil
}

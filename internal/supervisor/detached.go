package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/wire"
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

// detached runs a program whose client does not wait for it.
func (s *Supervisor) detached(client net.Conn, e wire.Exec) {
	e.Log, e.NoInput, e.Merged, e.TTY = false, true, true, nil
	if !s.enter() {
		return // it can be tried again
	}
	s.Ran(&e)
	kept, err := s.beforeProgram()
	if err != nil {
		s.leave()
		_ = wire.NewFrameWriter(client).Message(wire.Event{Failure: failure(err)})
		return
	}
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
	s.syncSoon()                                         // nobody else waits for its commits
	last := fmt.Sprintf("exit status %d", exit.Status()) // the last line: coffer attach exits like it
	if err != nil {
		last = s.whyGone()
	} else {
		s.endTurn(&e, exit)
	}
	for _, n := range append(append(append(kept, news...), s.wrapUp(known, &e)...), last) {
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
	s.beginTurn(log, &e)
	return p, log, nil
}

// beginTurn writes what begins into the log, between what programs print. A throw-away has one program,
// and its log nothing but what that prints.
func (s *Supervisor) beginTurn(log *log, e *wire.Exec) {
	if s.forOneProgram() {
		return
	}
	what := agent.Brief(string(bytes.Join(e.Argv, []byte(" "))), 100)
	if t, err := agent.ReadTrace(s.Sandbox.Dir()); err == nil && t.Began(e.Argv) {
		what = strings.TrimSpace(t.Agent + " " + agent.Brief(t.Prompt, 100))
	}
	log.begin(fmt.Sprintf("coffer: %s: %s\n", time.Now().Format(time.DateTime), terminal.Escape(what)))
}

// forOneProgram says whether the sandbox is there for one program: it ends with that.
func (s *Supervisor) forOneProgram() bool {
	return s.fleeting() || s.Sandbox.Limits.Idle <= time.Nanosecond // as 'coffer run --detach' has it
}

// endTurn notes how an agent's turn ended, unless it was cut off.
func (s *Supervisor) endTurn(e *wire.Exec, exit wire.Exit) {
	s.mu.Lock()
	cutOff := s.stopping
	s.mu.Unlock()
	if cutOff {
		return
	}
	dir := s.Sandbox.Dir()
	if t, err := agent.ReadTrace(dir); err == nil && t.Began(e.Argv) {
		if err := agent.End(dir, exit.Status()); err != nil {
			fmt.Fprintln(os.Stderr, "note how the agent ended:", err)
		}
	}
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
		if err = errors.Join(err, l.open(), l.mark(0)); err != nil {
			fmt.Fprintln(os.Stderr, "start a new log:", err)
		}
	}
	n, _ := l.f.Write(p)
	l.size += int64(n)
	return len(p), nil
}

// begin writes the line with which a program's output begins, and where that is.
func (l *log) begin(line string) {
	l.mu.Lock()
	err := l.mark(l.size)
	l.mu.Unlock()
	if err != nil {
		fmt.Fprintln(os.Stderr, "note where a program begins in the log:", err)
	}
	_, _ = l.Write([]byte(line))
}

// mark notes where the last program's output begins. The lock is held.
func (l *log) mark(at int64) error {
	return os.WriteFile(turnFile(l.path), []byte(strconv.FormatInt(at, 10)), 0o600)
}

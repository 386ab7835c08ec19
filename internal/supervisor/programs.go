package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/session"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/wire"
)

// A program comes in one of three ways. One whose command waits for it is handed to the guest,
// stream and all. One that is detached writes into the log. One that is kept has a terminal and a
// session that commands attach to. Around each of them, commits come over and checkpoints are
// taken.

// An errand is what is done around a program.
type errand struct {
	s     *Supervisor
	exec  *wire.Exec
	notes []string // for the user
	known map[*commits]known
}

// prepare is called before a program starts. Without what it does, the program must not start.
func (s *Supervisor) prepare(e *wire.Exec) (*errand, error) {
	notes, err := s.beforeProgram()
	if err != nil {
		return nil, err
	}
	news, known := s.before()
	return &errand{s: s, exec: e, notes: append(notes, news...), known: known}, nil
}

// finish is called when the program has ended, and returns what to tell the user.
func (r *errand) finish() []string { return append(r.notes, r.s.wrapUp(r.known, r.exec)...) }

// handOn hands a stream on to the guest agent, brings commits over, and tells the client what
// there is to say about it.
func (s *Supervisor) handOn(client net.Conn, request wire.Request) {
	s.passes(1)
	defer s.passes(-1)
	around, err := s.prepare(request.Exec)
	if err != nil {
		out := wire.NewFrameWriter(client)
		_ = out.Taken()
		_ = out.Message(wire.Event{Failure: failure(err)})
		return
	}
	guest := s.hand(request)
	if guest == nil {
		return // it can be tried again
	}
	s.anew()
	s.Ran(request.Exec)
	pipe(client, guest)
	out := wire.NewFrameWriter(client)
	for _, n := range around.finish() {
		_ = out.Note(n)
	}
	// A client that knows how the program ended has hung up. Another one must not
	// think that it was never started, and try again.
	_ = out.Lost()
}

// pipe passes bytes on between a client and the guest. When the guest has nothing more to say,
// what the client still says is for nobody.
func pipe(client net.Conn, guest io.ReadWriteCloser) {
	defer guest.Close()
	go func() {
		wire.Copy(guest, client)
		guest.Close() // this direction only
	}()
	wire.Copy(client, guest)
}

// hand gives a program to the guest, and returns its stream, or nil if it was not taken.
func (s *Supervisor) hand(request wire.Request) io.ReadWriteCloser {
	if !s.letIn() {
		return nil
	}
	defer s.handed()
	guest, err := s.Open()
	if err != nil {
		return nil
	}
	if wire.WriteRequest(guest, request) != nil || !wire.ReadTaken(guest) {
		guest.Close()
		return nil
	}
	return guest
}

// keep runs a program that outlives its command: with a terminal that others can attach to, or
// detached. It returns when the program has ended.
func (s *Supervisor) keep(client net.Conn, e wire.Exec) {
	attachable, alone := e.Keep, e.Log
	e.Log, e.Keep, e.Apart = false, false, false
	e.NoInput, e.Merged = !attachable, !attachable
	switch {
	case !attachable:
		e.TTY = nil
	case e.TTY == nil || e.TTY.Rows == 0 || e.TTY.Cols == 0:
		e.TTY = &wire.Size{Rows: 24, Cols: 80}
	}
	if !s.enter() {
		return // it can be tried again
	}
	defer s.leave()
	s.passes(1)
	defer s.passes(-1)
	around, err := s.prepare(&e)
	if err != nil {
		_ = wire.NewFrameWriter(client).Message(wire.Event{Failure: failure(err)})
		return
	}
	p, log, err := s.startKept(e)
	if err != nil {
		// Without a word, it can be tried again.
		if errors.As(err, new(*wire.Failure)) || alone && !errors.Is(err, errEnding) {
			_ = wire.NewFrameWriter(client).Message(wire.Event{Failure: failure(err)})
		}
		return
	}
	defer p.Close()
	s.anew()
	s.Ran(&e)
	if !attachable {
		_ = wire.NewFrameWriter(client).Started()
		exit, err := p.Wait(log, log)
		s.endKept(around, log, exit, err, "", nil)
		return
	}
	k := session.New(p, string(e.Argv[0]), *e.TTY, s.Sandbox.Limits.Idle)
	defer k.Close()
	s.sessions.Add(k)
	if alone {
		_ = wire.NewFrameWriter(client).Started()
		client.Close()
	} else {
		k.Begin(client) // before it can have ended
	}
	exit, err := k.Wait()
	s.endKept(around, log, exit, err, k.Bored(), k)
}

// endKept writes into the log what there is to tell the user and how the program ended.
func (s *Supervisor) endKept(around *errand, log *session.Log, exit wire.Exit, err error, why string, k *session.Session) {
	if err == nil {
		why = fmt.Sprintf("exit status %d", exit.Status())
		s.endTurn(around.exec, exit)
	} else if why == "" {
		why = s.whyGone()
	}
	s.syncSoon() // nobody else waits for its commits
	for _, n := range around.finish() {
		fmt.Fprintln(log, "coffer:", n)
		if k != nil {
			k.Tell(func(out *wire.FrameWriter) error { return out.Note(n) })
		}
	}
	if k != nil {
		k.Tell((*wire.FrameWriter).Lost)
	}
	fmt.Fprintln(log, "coffer:", why) // the last line: coffer attach exits like it
}

// whyGone says why programs have lost their sandbox.
func (s *Supervisor) whyGone() string {
	if why := s.Why(); why != "" {
		return why
	}
	return "the sandbox was ended"
}

// startKept starts a program whose output goes into the log.
func (s *Supervisor) startKept(e wire.Exec) (*wire.Process, *session.Log, error) {
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

// openLog opens the log that these programs share.
func (s *Supervisor) openLog() (log *session.Log, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log == nil {
		s.log, err = session.OpenLog(session.LogFile(s.Sandbox))
	}
	return s.log, err
}

// beginTurn writes what begins into the log, between what programs print. A throw-away has one program,
// and its log nothing but what that prints.
func (s *Supervisor) beginTurn(log *session.Log, e *wire.Exec) {
	if s.forOneProgram() {
		return
	}
	what := agent.Brief(string(bytes.Join(e.Argv, []byte(" "))), 100)
	if t, err := agent.ReadTrace(s.Sandbox.Dir()); err == nil && t.Began(e.Argv) {
		what = strings.TrimSpace(t.Agent + " " + agent.Brief(t.Prompt, 100))
	}
	log.Begin(fmt.Sprintf("coffer: %s: %s\n", time.Now().Format(time.DateTime), terminal.Escape(what)))
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

func failure(err error) *wire.Failure {
	if f, ok := err.(*wire.Failure); ok {
		return f
	}
	return &wire.Failure{Code: 125, Message: err.Error()}
}

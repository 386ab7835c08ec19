package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/session"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/wire"
)

// errEnding is for a program that came too late. It was not started.
var errEnding = errors.New("the sandbox is being stopped")

// exec runs a program for a command. One whose command waits for it is handed to the guest, stream
// and all. One that is detached writes to the log. One that is kept has a terminal and a session
// that commands attach to. A command that gets no answer can try again.
func (s *Supervisor) exec(client net.Conn, r wire.Request) {
	if !s.activity.enter() {
		return
	}
	s.logins.nudge()
	defer s.logins.nudge() // when it has left
	defer s.activity.leave()
	out := wire.NewFrameWriter(client)
	around, err := s.prepare(r.Exec)
	if errors.Is(err, context.Canceled) {
		return // the sandbox is ending
	}
	if err != nil {
		if r.Passes() {
			_ = out.Taken()
		}
		_ = out.Message(wire.Event{Failure: failure(err)})
		return
	}
	switch {
	case r.Passes():
		s.pass(client, r, around)
	case r.Exec.Keep:
		s.keep(client, *r.Exec, around)
	default:
		s.detach(client, *r.Exec, around)
	}
}

// An errand is what is done around a program: commits are synced and checkpoints taken.
type errand struct {
	s     *Supervisor
	exec  *wire.Exec
	notes []string // for the user
	known map[*repository]known
}

// prepare is called before a program starts. If it fails, the program must not start.
func (s *Supervisor) prepare(e *wire.Exec) (*errand, error) {
	if why := s.disks.frozen(); why != "" {
		return nil, errors.New(why)
	}
	if err := s.hidden.HideNew(); err != nil {
		return nil, err
	}
	notes := s.checkpoints.before()
	news, known := s.commits.before()
	return &errand{s: s, exec: e, notes: append(notes, news...), known: known}, nil
}

// began is called when the program has started.
func (r *errand) began() {
	r.s.network.Retell()
	r.s.logExec(r.exec)
}

// finish is called when the program has ended, and returns what to tell the user.
func (r *errand) finish() []string {
	arrived, taken := make(chan struct{}), make(chan []string, 1)
	go func() { taken <- r.s.checkpoints.after(r.exec, arrived) }()
	news := r.s.commits.after(r.known)
	close(arrived)
	if r.s.Sandbox.HasGit() { // else commands do not wait for notes
		news = append(news, r.s.logins.renew()...)
	}
	return append(append(r.notes, news...), <-taken...)
}

// Foreground runs a program of the supervisor's own process, and returns what to tell the user.
// Its sandbox is new, and gone afterwards: nothing has appeared that is to be hidden, and no
// checkpoints are taken.
func (s *Supervisor) Foreground(e *wire.Exec, program func()) []string {
	s.logExec(e)
	news, about := s.commits.before()
	program()
	return append(news, s.commits.after(about)...)
}

// pass hands a stream on to the guest agent, and adds what there is to tell the user.
func (s *Supervisor) pass(client net.Conn, request wire.Request, around *errand) {
	guest := s.hand(request)
	if guest == nil {
		return
	}
	around.began()
	pipe(client, guest)
	out := wire.NewFrameWriter(client)
	for _, n := range around.finish() {
		_ = out.Note(n)
	}
	// A client that knows how the program ended has hung up. Another one must not
	// think that it was never started, and try again.
	_ = out.Lost()
}

// pipe passes bytes on between a client and the guest until the guest has ended its direction.
func pipe(client net.Conn, guest io.ReadWriteCloser) {
	defer guest.Close()
	go func() {
		_, _ = io.Copy(guest, client)
		guest.Close() // this direction only
	}()
	_, _ = io.Copy(client, guest)
}

// hand gives a program to the guest, and returns its stream, or nil if it was not taken.
func (s *Supervisor) hand(request wire.Request) io.ReadWriteCloser {
	if !s.activity.letIn() {
		return nil
	}
	defer s.activity.handed()
	guest, err := s.Open()
	if err != nil {
		return nil
	}
	if wire.WriteMessage(guest, request) != nil || !wire.ReadTaken(guest) {
		guest.Close()
		return nil
	}
	return guest
}

// keep runs a program with a terminal that others can attach to.
func (s *Supervisor) keep(client net.Conn, e wire.Exec, around *errand) {
	if e.TTY == nil || e.TTY.Rows == 0 || e.TTY.Cols == 0 {
		e.TTY = &wire.Size{Rows: 24, Cols: 80}
	}
	e.NoInput, e.Merged = false, false
	alone := e.Log
	p, log := s.startKept(client, e, around)
	if p == nil {
		return
	}
	defer p.Close()
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
	s.endKept(around, log, exit, err, k.Bored(), func(n string) {
		k.Tell(func(out *wire.FrameWriter) error { return out.Note(n) })
	})
	k.Tell((*wire.FrameWriter).Lost)
}

// detach runs a program whose output goes into the log.
func (s *Supervisor) detach(client net.Conn, e wire.Exec, around *errand) {
	e.TTY, e.NoInput, e.Merged = nil, true, true
	p, log := s.startKept(client, e, around)
	if p == nil {
		return
	}
	defer p.Close()
	_ = wire.NewFrameWriter(client).Started()
	exit, err := p.Wait(log, log)
	s.endKept(around, log, exit, err, "", func(string) {})
}

// startKept starts a program that outlives its command, and tells the client if it cannot.
func (s *Supervisor) startKept(client net.Conn, e wire.Exec, around *errand) (*wire.Process, *session.Log) {
	alone := e.Log
	p, log, err := s.launch(e)
	if err == nil {
		around.began()
		return p, log
	}
	if errors.As(err, new(*wire.Failure)) || alone && !errors.Is(err, errEnding) {
		_ = wire.NewFrameWriter(client).Message(wire.Event{Failure: failure(err)})
	}
	return nil, nil
}

func (s *Supervisor) launch(e wire.Exec) (*wire.Process, *session.Log, error) {
	e.Log, e.Keep, e.Apart = false, false, false
	log, err := s.openLog()
	if err != nil {
		return nil, nil, err
	}
	if !s.activity.letIn() {
		return nil, nil, errEnding
	}
	defer s.activity.handed()
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

// endKept tells the user, and the log, what there is to say and how the program ended.
func (s *Supervisor) endKept(around *errand, log *session.Log, exit wire.Exit, err error, why string, tell func(string)) {
	if err == nil {
		why = fmt.Sprintf("exit status %d", exit.Status())
		s.endTurn(around.exec, exit)
	} else if why == "" {
		if why = s.Why(); why == "" {
			why = "the sandbox was ended"
		}
	}
	for _, n := range around.finish() {
		fmt.Fprintln(log, "coffer:", n)
		tell(n)
	}
	fmt.Fprintln(log, "coffer:", why) // the last line: coffer attach exits like it
}

// openLog opens the log that programs without a command share.
func (s *Supervisor) openLog() (log *session.Log, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log == nil {
		s.log, err = session.OpenLog(session.LogFile(s.Sandbox))
	}
	return s.log, err
}

// beginTurn writes into the log what begins. The log of a sandbox for one program has nothing but
// what that prints.
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

// forOneProgram says whether the sandbox ends with one program.
func (s *Supervisor) forOneProgram() bool {
	return s.Sandbox.Fleeting() || s.Sandbox.Limits.Idle <= time.Nanosecond // as 'coffer run --detach' has it
}

// endTurn notes how an agent's turn ended, unless it was cut off.
func (s *Supervisor) endTurn(e *wire.Exec, exit wire.Exit) {
	if s.activity.isEnding() {
		return
	}
	dir := s.Sandbox.Dir()
	if t, err := agent.ReadTrace(dir); err == nil && t.Began(e.Argv) {
		if err := agent.End(dir, exit.Status()); err != nil {
			fmt.Fprintln(os.Stderr, "note how the agent ended:", err)
		}
	}
}

// logExec logs that a program runs.
func (s *Supervisor) logExec(e *wire.Exec) {
	const most = 64
	event := audit.Event{Kind: audit.KindExec, Detail: "in " + e.Dir}
	if e.Root {
		event.User = "root"
	}
	for _, a := range e.Argv[:min(len(e.Argv), most)] {
		event.Command = append(event.Command, string(a[:min(len(a), 4096)]))
	}
	s.audit.Add(event)
}

func failure(err error) *wire.Failure {
	if f, ok := err.(*wire.Failure); ok {
		return f
	}
	return &wire.Failure{Code: 125, Message: err.Error()}
}

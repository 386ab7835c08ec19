package guest

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// patience is how long a client may take to say what it wants.
const patience = 20 * time.Second

// handle serves one stream of the host, which may ask for everything.
func (a *agent) handle(s net.Conn) {
	r, err := first(s)
	switch {
	case err != nil:
		s.Close()
	case r.Op == wire.OpExec && r.Exec != nil && len(r.Exec.Argv) > 0:
		a.exec(s, r.Exec)
	case r.Op == wire.OpStop && r.Stop != nil:
		a.stop(r.Stop.Grace)
	case r.Op == wire.OpDial && r.Dial != nil:
		a.dial(s, *r.Dial)
	case r.Op == wire.OpListen && r.Listen != nil && r.Listen.Path == "":
		a.openHostPort(s, r.Listen.Port)
	case r.Op == wire.OpListen && r.Listen != nil:
		a.listen(s, r.Listen.Path)
	case r.Op == wire.OpPorts && r.Ports != nil:
		a.ports(s, *r.Ports)
	case r.Op == wire.OpMasks:
		hide(s, r.Hide)
	case r.Op == wire.OpBackground:
		a.background(s)
	default:
		s.Close()
	}
}

// handleInside serves one connection of a program inside. It may ask for programs,
// which is what sudo does, and for nothing else: to stop the sandbox, to make sockets
// that lead out of it and to have the agent connect to things is the host's business.
func (a *agent) handleInside(s net.Conn) {
	r, err := first(s)
	if err == nil && r.Op == wire.OpExec && r.Exec != nil && len(r.Exec.Argv) > 0 {
		a.exec(s, r.Exec)
		return
	}
	s.Close()
}

// first reads what a stream is opened for.
func first(s net.Conn) (r wire.Request, err error) {
	s.SetReadDeadline(time.Now().Add(patience))
	if r, err = wire.ReadRequest(s); err != nil {
		return r, err
	}
	s.SetReadDeadline(time.Time{})
	return r, nil
}

// running is an exec whose program has been started.
type running struct {
	end <-chan syscall.WaitStatus
	io  stdio
	in  *wire.Inbox
	tty bool
	// signal sends to the program and what it started in its session's first group.
	signal func(syscall.Signal)
}

// exec runs a program for the client at the other end of the stream.
func (a *agent) exec(conn net.Conn, e *wire.Exec) {
	a.execs.Add(1)
	defer a.execs.Done()
	defer conn.Close()
	out := wire.NewFrameWriter(conn)
	a.starting.RLock() // before it is said: who stops us from then on waits for the program
	_ = out.Taken()
	p, err := a.begin(e, out)
	a.starting.RUnlock()
	if err != nil {
		var f *wire.Failure
		if !errors.As(err, &f) {
			f = &wire.Failure{Code: 125, Message: err.Error()}
		}
		_ = out.Message(wire.Event{Failure: f})
		return
	}
	// The start is told before the first byte of output.
	_ = out.Started()
	p.io.run(p.in)
	go p.listen(conn)
	status := <-p.end
	p.io.finish()
	exit := wire.Exit{Code: status.ExitStatus()}
	if status.Signaled() {
		exit = wire.Exit{Signal: status.Signal()}
	}
	if exit.Status() != 0 && a.network.kind == KernelLink {
		exit.Refused = link.Refused()
	}
	_ = out.Exited(exit)
}

// begin starts the program with its descriptors in place.
func (a *agent) begin(e *wire.Exec, out *wire.FrameWriter) (*running, error) {
	p := &running{tty: e.TTY != nil, in: wire.NewInbox(func(n int) { _ = out.Message(wire.Event{Credit: n}) })}
	var theirs []int
	var err error
	if e.TTY != nil {
		p.io, theirs, err = newTerminal(out, *e.TTY, e.Apart)
	} else {
		p.io, theirs, err = newPipes(out, e.NoInput, e.Merged)
	}
	if err != nil {
		return nil, err
	}
	attr := &attributes{umask: wire.UsualUmask, ProcAttr: syscall.ProcAttr{
		Dir: e.Dir,
		Env: texts(e.Env),
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: e.TTY != nil},
	}}
	if e.Umask != nil {
		attr.umask = int(*e.Umask & 0o777)
	}
	for _, fd := range theirs {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	err = a.launch(p, e, attr, out)
	closeAll(theirs)
	if err != nil {
		p.io.close()
		return nil, err
	}
	return p, nil
}

// launch starts the program, and sees to who hears of its end and how it is signalled.
func (a *agent) launch(p *running, e *wire.Exec, attr *attributes, out *wire.FrameWriter) error {
	if e.TTY != nil {
		with, err := a.startLed(e, attr)
		if err != nil {
			return err
		}
		p.signal = with.signal
		p.end = with.follow(func() {
			p.io.settle()
			_ = out.Message(wire.Event{Stopped: true})
		})
		return nil
	}
	start := a.startUser
	if e.Root {
		start = a.startRoot
	}
	pid, end, err := start(texts(e.Argv), attr)
	if err != nil {
		return err
	}
	p.end = end
	p.signal = func(s syscall.Signal) {
		_ = a.reaper.with(pid, func() error { return unix.Kill(-pid, s) })
	}
	return nil
}

// startUser starts a program as the user, from the confined thread.
func (a *agent) startUser(argv []string, attr *attributes) (pid int, end <-chan syscall.WaitStatus, err error) {
	err = spawn(argv, attr.Env, attr.Dir, func(path string, argv []string) (err error) {
		pid, end, err = a.launcher.fork(a.reaper, false, path, argv, attr)
		return err
	})
	return pid, end, err
}

// listen takes what the client sends, and hangs up on the program when the client is
// gone. It never waits for the program: see package wire.
func (p *running) listen(conn net.Conn) {
	defer p.hangUp()
	defer p.in.Close()
	frames := wire.NewFrameReader(conn)
	for {
		kind, body, err := frames.Next()
		if err != nil {
			return
		}
		switch kind {
		case wire.Input:
			if !p.in.Put(body) {
				return // more than it had credit for
			}
		case wire.Message:
			c, err := wire.DecodeControl(body)
			if err != nil {
				return
			}
			p.control(c)
		}
	}
}

func (p *running) control(c wire.Control) {
	if c.Resize != nil {
		p.io.resize(*c.Resize)
	}
	if c.Signal > 0 && c.Signal < 65 {
		p.signal(c.Signal)
	}
	if c.EOF {
		p.in.Close()
	}
	if c.Deaf > 0 {
		p.io.deafen(c.Deaf)
	}
}

// hangUp ends a program whose client has gone away.
func (p *running) hangUp() {
	p.signal(unix.SIGHUP)
	p.signal(unix.SIGCONT)
	time.AfterFunc(time.Second, func() { p.signal(unix.SIGKILL) })
}

// stop asks every program to end, waits until all have or the time is over, and ends. It waits
// first for programs that are being started, which would not hear it otherwise.
func (a *agent) stop(grace time.Duration) {
	end := time.Now().Add(grace)
	started := make(chan struct{})
	go func() {
		a.starting.Lock()
		close(started)
	}()
	select {
	case <-started:
	case <-time.After(grace):
	}
	unix.Kill(-1, unix.SIGTERM)
	unix.Kill(-1, unix.SIGCONT)
	for time.Now().Before(end) {
		// No process left to signal means that we are alone.
		if unix.Kill(-1, 0) == unix.ESRCH {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	// They have ended; their clients shall hear how.
	told := make(chan struct{})
	go func() {
		a.execs.Wait()
		close(told)
	}()
	select {
	case <-told:
	case <-time.After(500 * time.Millisecond):
	}
	os.Exit(0)
}

func texts(bytes [][]byte) []string {
	out := make([]string, len(bytes))
	for i, b := range bytes {
		out[i] = string(b)
	}
	return out
}

// hide covers places that must stay unread, and tells for each what went wrong: nothing, or that it
// is not there.
func hide(s net.Conn, places [][]byte) {
	said := make([]string, len(places))
	for i, p := range places {
		err := rootfs.ForbidNow(string(p))
		switch {
		// A link in the way was put in the place of a directory, of which the host hears. A
		// copy-on-write view may not have heard of the file.
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ESTALE):
			said[i] = wire.NotThere
		case err != nil:
			said[i] = err.Error()
		}
	}
	b, err := json.Marshal(said)
	if err == nil {
		err = wire.WriteMessage(s, wire.Event{Masks: b})
	}
	if err != nil {
		_ = wire.WriteMessage(s, wire.Event{Failure: &wire.Failure{Code: 125, Message: "the answer is too long"}})
	}
	wire.HangUp(s)
}

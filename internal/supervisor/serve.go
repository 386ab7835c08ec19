package supervisor

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/inside"
	"github.com/cofferhq/coffer/internal/quick/knock"
	"github.com/cofferhq/coffer/internal/socket"
)

// Listen opens the sandbox's socket to commands of the same user.
func (s *Supervisor) Listen() (io.Closer, error) {
	path, release, err := s.Sandbox.Socket()
	if err != nil {
		return nil, err
	}
	os.Remove(path) // one that a killed supervisor left; we hold the lock
	l, err := socket.Listen(path)
	if err != nil {
		release()
		return nil, fmt.Errorf("listen for commands: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		release()
		return nil, err
	}
	go s.serve(l)
	go func() {
		// Nobody shall come to a sandbox that is dead already.
		<-s.session.CloseChan()
		l.Close()
	}()
	return closer(func() error { defer release(); return l.Close() }), nil
}

type closer func() error

func (c closer) Close() error { return c() }

func (s *Supervisor) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // out of descriptors: some will come back
			continue
		}
		if err := trusted(c.(*net.UnixConn)); err != nil {
			if !errors.Is(err, os.ErrNotExist) { // it was there, and still is
				fmt.Fprintln(os.Stderr, "coffer: refused a client:", err)
			}
			c.Close()
			continue
		}
		go s.stream(c)
	}
}

// stream serves one connection of a command.
func (s *Supervisor) stream(c net.Conn) {
	defer c.Close()
	packed, err := wire.ReadRequest(c)
	if err != nil {
		return
	}
	if k, ok := knock.Open(packed); ok {
		// It has the client's environment, and this process has another one.
		e, err := inside.ExecFor(s.Sandbox, k.Argv, k.Env, k.Dir)
		if err != nil {
			return
		}
		e.NoInput, e.Merged = k.NoInput, k.Merged
		packed = e.Packed()
	}
	if packed.IsExec() {
		if s.stopping.Load() {
			return
		}
		s.enter()
		defer s.leave()
		s.bridgedPass(c, packed)
		return
	}
	r, err := packed.Open()
	if err != nil {
		return
	}
	switch r.Op {
	case wire.OpExec:
		switch {
		case s.stopping.Load():
		case r.Exec != nil && r.Exec.Keep:
			s.kept(c, *r.Exec)
		case r.Exec != nil && r.Exec.Log:
			s.detached(c, *r.Exec)
		}
	case wire.OpAttach:
		if r.Attach != nil {
			s.attach(c, *r.Attach)
		}
	case wire.OpStatus:
		s.mu.Lock()
		st := wire.Status{PID: os.Getpid(), Since: s.since, Execs: s.execs, Kept: len(s.sessions), Daemons: s.daemonStates()}
		s.mu.Unlock()
		if r.Ports != nil {
			st.Ports = s.ports()
		}
		_ = wire.WriteMessage(c, wire.Event{Status: &st})
	case wire.OpPolicy:
		s.answerPolicy(c, r.Policy)
	case wire.OpSync:
		s.answerSync(c, r.Sync)
	case wire.OpUndo:
		s.answerUndo(c, r.Undo)
	case wire.OpMasks:
		s.answerMasks(c)
	case wire.OpShow:
		s.answerShow(c, r.Show)
	case wire.OpWatch:
		if r.Watch != nil {
			s.watch(c, r.Watch.Since)
		}
	case wire.OpStop:
		if r.Stop != nil {
			s.stopping.Store(true)
			if r.Stop.Grace > 0 {
				s.syncSoon()
			}
			s.Stop(min(max(r.Stop.Grace, 0), time.Minute), "the sandbox was stopped")
		}
	case wire.OpForward:
		if r.Forward != nil {
			_ = wire.WriteMessage(c, s.forward(*r.Forward))
		}
	}
}

// bridgedPass hands a stream on to the guest agent, brings commits over, and tells the
// client what there is to say about it.
func (s *Supervisor) bridgedPass(client net.Conn, request wire.Packed) {
	s.passes(1)
	defer s.passes(-1)
	kept := s.beforeProgram()
	news, known := s.before()
	if !s.pass(client, request) {
		return
	}
	var ran *wire.Exec
	if r, err := request.Open(); err == nil {
		ran = r.Exec
	}
	out := wire.NewFrameWriter(client)
	for _, n := range append(append(kept, news...), s.wrapUp(known, ran)...) {
		_ = out.Note(n)
	}
	// A client that knows how the program ended has hung up. Another one must not
	// think that it was never started, and try again.
	_ = out.Lost()
}

// pass hands a stream on to the guest agent. If it was not taken, it can be tried again.
func (s *Supervisor) pass(client net.Conn, request wire.Packed) (taken bool) {
	guest, err := s.Open()
	if err != nil {
		return false
	}
	defer guest.Close()
	if request.Pass(guest) != nil || !wire.ReadTaken(guest) {
		return false
	}
	if r, err := request.Open(); err == nil {
		s.anew()
		s.Ran(r.Exec)
	}
	go func() {
		wire.Copy(guest, client)
		guest.Close() // this direction only
	}()
	// What comes from the guest decides: when it has nothing more to say, what
	// the client still says is for nobody.
	wire.Copy(client, guest)
	return true
}

// enter and leave count what runs; a sandbox in which nothing does is stopped after
// its idle time.
func (s *Supervisor) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.execs++
	s.late = false
	s.preparing = s.idleTime < firstUse && s.isSettingUp()
	s.watchLogin()
	if s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
}

func (s *Supervisor) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.execs--
	s.rest()
}

// isSettingUp says whether the sandbox is being set up by what runs now.
func (s *Supervisor) isSettingUp() bool {
	_, err := os.Lstat(s.Sandbox.SetupMark())
	return err == nil
}

// rest starts the idle time. The lock is held.
func (s *Supervisor) rest() {
	if s.execs > 0 || s.idle != nil {
		return
	}
	s.restLogin()
	wait := s.idleTime
	if s.preparing {
		wait = firstUse // for what it was set up for
	}
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		s.mu.Lock()
		still := s.idle == timer // nothing has run since
		if still && s.visits > 0 {
			s.idle, s.late, still = nil, true, false
		}
		s.mu.Unlock()
		if still {
			s.resting.Do(func() { close(s.rested) })
		}
	})
	s.idle = timer
}

// Run serves until the sandbox is stopped, idle for long enough, or dead.
func (s *Supervisor) Run() {
	s.mu.Lock()
	first := s.idleTime
	s.idleTime = max(first, firstUse)
	s.rest()
	s.idleTime = first
	s.mu.Unlock()
	select {
	case <-s.rested:
		s.StopDaemons()
	case <-s.instance.Done():
	}
}

// firstUse is how long a new supervisor waits for the command that wanted it.
const firstUse = 10 * time.Second

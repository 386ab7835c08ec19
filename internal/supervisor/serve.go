package supervisor

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/cofferhq/coffer/internal/wire"
)

// Listen opens the sandbox's socket to commands of the same user.
func (s *Supervisor) Listen() (io.Closer, error) {
	path, release, err := s.Sandbox.Socket()
	if err != nil {
		return nil, err
	}
	os.Remove(path) // one that a killed supervisor left; we hold the lock
	l, err := net.Listen("unix", path)
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
	r, err := wire.ReadRequest(c)
	switch {
	case err != nil:
	case r.Passes():
		if s.enter() {
			defer s.leave()
			s.handOn(c, r)
		}
	default:
		s.attend(c, r)
	}
}

// attend does what a command wants, if that is not a program that lives as long as it does.
func (s *Supervisor) attend(c net.Conn, r wire.Request) {
	switch r.Op {
	case wire.OpExec:
		if r.Exec != nil {
			s.keep(c, *r.Exec)
		}
	case wire.OpAttach:
		if r.Attach != nil {
			s.sessions.Attach(c, *r.Attach)
		}
	case wire.OpStatus:
		_ = wire.WriteMessage(c, wire.Event{Status: s.status(r.Ports != nil)})
	case wire.OpPolicy:
		s.answerPolicy(c, r.Policy)
	case wire.OpSync:
		s.answerSync(c, r.Sync)
	case wire.OpUndo:
		s.answerUndo(c, r.Undo)
	case wire.OpMasks:
		s.answerMasks(c)
	case wire.OpWatch:
		if r.Watch != nil {
			s.watch(c, r.Watch.Since)
		}
	case wire.OpStop:
		if r.Stop != nil {
			s.end()
			if r.Stop.Grace > 0 {
				s.syncSoon()
			}
			s.Stop(min(max(r.Stop.Grace, 0), time.Minute), "the sandbox was stopped")
		}
	case wire.OpForward:
		if r.Forward != nil {
			_ = wire.WriteMessage(c, s.forward.Change(*r.Forward))
		}
	}
}

// status says what runs and, if they are asked for, which ways lead inside.
func (s *Supervisor) status(ports bool) *wire.Status {
	s.mu.Lock()
	st := wire.Status{PID: os.Getpid(), Since: s.since, Execs: s.execs, Daemons: s.daemons.States()}
	s.mu.Unlock()
	st.Programs, st.Silent = s.sessions.Programs()
	st.Frozen = s.frozen()
	st.Background, _ = s.background()
	if ports {
		st.Ports = s.forward.Ports()
	}
	return &st
}

// isSettingUp says whether the sandbox is being set up by what runs now.
func (s *Supervisor) isSettingUp() bool {
	_, err := os.Lstat(s.Sandbox.SetupMark())
	return err == nil
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
		s.daemons.Stop()
	case <-s.instance.Done():
	}
}

// firstUse is how long a new supervisor waits for the command that wanted it.
const firstUse = 10 * time.Second

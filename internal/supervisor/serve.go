package supervisor

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/cofferhq/coffer/internal/wire"
)

// Listen opens the sandbox's socket to commands of the same user.
func (s *Supervisor) Listen() (io.Closer, error) {
	door, err := wire.Listen(s.Sandbox, s.serve)
	if err != nil {
		return nil, err
	}
	go func() {
		<-s.session.CloseChan() // nobody shall come to a sandbox that is dead
		door.Close()
	}()
	return door, nil
}

// Run serves until the sandbox is stopped, idle for long enough, or dead.
func (s *Supervisor) Run() {
	s.activity.start()
	select {
	case <-s.activity.rested:
		s.daemons.Stop()
	case <-s.instance.Done():
	}
}

// serve serves one connection of a command.
func (s *Supervisor) serve(c net.Conn) {
	r, err := wire.ReadRequest(c)
	if err != nil {
		return
	}
	switch {
	case r.Op == wire.OpExec && r.Exec != nil:
		s.exec(c, r)
	case r.Op == wire.OpAttach && r.Attach != nil:
		s.sessions.Attach(c, *r.Attach)
	case r.Op == wire.OpWatch && r.Watch != nil:
		s.notices.serve(c, r.Watch.Since, s.disks.frozen())
	case r.Op == wire.OpStop && r.Stop != nil:
		s.activity.end()
		if r.Stop.Grace > 0 {
			s.commits.syncSoon()
		}
		s.Stop(min(max(r.Stop.Grace, 0), time.Minute), "the sandbox was stopped")
	default:
		e, err := s.answer(r)
		wire.Reply(c, e, err)
	}
}

// answer answers what a command asks in one message.
func (s *Supervisor) answer(r wire.Request) (e wire.Event, err error) {
	switch {
	case r.Op == wire.OpStatus:
		e.Status = s.status(r.Ports != nil)
	case r.Op == wire.OpPolicy:
		return s.network.Answer(s.Sandbox, r.Policy)
	case r.Op == wire.OpSync:
		e.Synced, err = s.commits.answer(r.Sync)
	case r.Op == wire.OpUndo:
		e.Undone, err = s.checkpoints.answer(r.Undo)
	case r.Op == wire.OpMasks:
		e.Masks, err = json.Marshal(s.hidden.List())
	case r.Op == wire.OpForward && r.Forward != nil:
		e.Ports, err = s.forward.Change(*r.Forward)
	default:
		err = errors.New("the supervisor does not know this request")
	}
	return e, err
}

// status says what runs and, if they are asked for, which ports lead inside.
func (s *Supervisor) status(ports bool) *wire.Status {
	st := wire.Status{PID: os.Getpid(), Since: s.since, Execs: s.activity.running(), Daemons: s.daemons.States(), Frozen: s.disks.frozen()}
	st.Programs, st.Silent = s.sessions.Programs()
	st.Background, _ = s.background()
	if ports {
		st.Ports = s.forward.Ports()
	}
	return &st
}

// background asks the guest for programs that no command waits for.
func (s *Supervisor) background() (wire.Background, error) {
	if why := s.disks.frozen(); why != "" {
		return wire.Background{}, errors.New(why)
	}
	e, err := s.askGuest(wire.Request{Op: wire.OpBackground}, surveyPatience)
	if err == nil && e.Background == nil {
		err = errors.New("the guest did not say what runs")
	}
	if err != nil {
		return wire.Background{}, err
	}
	// The guest is not trusted.
	e.Background.Count = max(e.Background.Count, 0)
	e.Background.Names = e.Background.Names[:min(len(e.Background.Names), wire.MaxNames)]
	return *e.Background, nil
}

// isBusy says whether an idle sandbox must stay: programs were left in the background, or it is
// frozen and may not be idle at all.
func (s *Supervisor) isBusy() bool {
	if s.forOneProgram() {
		return s.disks.frozen() != ""
	}
	left, _ := s.background()
	return left.Count > 0 || s.disks.frozen() != ""
}

// isSettingUp says whether what runs now sets the sandbox up.
func (s *Supervisor) isSettingUp() bool {
	_, err := os.Lstat(s.Sandbox.SetupMark())
	return err == nil
}

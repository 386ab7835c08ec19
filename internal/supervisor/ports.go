package supervisor

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// surveyPatience is how long the guest may take to say what listens inside.
const surveyPatience = time.Second

// A survey asks the guest what listens inside. There is one question at a time: a
// guest that does not answer shall not collect them.
type survey struct {
	mu       sync.Mutex
	answered chan struct{} // nil when nobody asks
	last     []wire.Port
}

// ports are the ways into the sandbox, as far as they are known in time.
func (s *Supervisor) ports() *wire.Ports {
	p := &wire.Ports{Listening: s.listening()}
	s.openings.changing.Lock()
	defer s.openings.changing.Unlock()
	for _, f := range s.Sandbox.Forwards {
		p.Forwards = append(p.Forwards, wire.Forward(f))
	}
	return p
}

// listening is what listens inside: what the guest says now, or what it said last.
func (s *Supervisor) listening() []wire.Port {
	v := &s.openings.survey
	v.mu.Lock()
	if v.answered == nil {
		v.answered = make(chan struct{})
		go s.ask(v.answered)
	}
	answered := v.answered
	v.mu.Unlock()
	select {
	case <-answered:
	case <-time.After(surveyPatience):
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last
}

// ask asks the guest, however long it takes.
func (s *Supervisor) ask(answered chan struct{}) {
	v := &s.openings.survey
	said, hangUp := s.inquire(wire.Survey{Except: s.openings.plumbing})
	v.mu.Lock()
	v.last = believable(said.Listening)
	v.mu.Unlock()
	close(answered)
	hangUp()
	v.mu.Lock()
	v.answered = nil
	v.mu.Unlock()
}

// inquire puts a question to the guest, and returns what it says, if anything. It may take as
// long as it likes for that, and to hang up.
func (s *Supervisor) inquire(q wire.Survey) (said wire.Ports, hangUp func()) {
	var e wire.Event
	c, err := s.session.Open()
	if err == nil {
		err = wire.WriteMessage(c, wire.Request{Op: wire.OpPorts, Ports: &q})
	}
	if err == nil {
		e, err = wire.Answer(c)
	}
	if err == nil && e.Ports != nil {
		said = *e.Ports
	}
	return said, func() { wire.HangUp(c) }
}

// closedInside asks the guest whether a program has closed a connection. One that does not
// answer in time knows of none, and is not asked again before it has.
func (s *Supervisor) closedInside(from, to netip.AddrPort) bool {
	if !s.openings.asking.TryLock() {
		return false
	}
	answer := make(chan bool, 1)
	go func() {
		defer s.openings.asking.Unlock()
		said, hangUp := s.inquire(wire.Survey{Connection: &wire.Connection{From: from.String(), To: to.String()}})
		answer <- said.Closed
		hangUp()
	}()
	select {
	case closed := <-answer:
		return closed
	case <-time.After(surveyPatience):
		return false
	}
}

// believable takes from what a guest says what could be true, and can be shown.
func believable(told []wire.Port) (all []wire.Port) {
	for _, p := range told[:min(len(told), wire.MaxPorts)] {
		addr, err := netip.ParseAddr(p.Address)
		if err != nil || addr.Zone() != "" || p.Port == 0 {
			continue
		}
		name := []rune(strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return '?'
			}
			return r
		}, p.Program))
		all = append(all, wire.Port{Port: p.Port, Address: addr.String(), Program: string(name[:min(len(name), 32)])})
	}
	return all
}

// Forward changes the forwards of a sandbox. If it runs, they change now; if not, when
// it starts. It returns those that were asked for.
func Forward(ctx context.Context, sb *sandbox.Sandbox, w wire.Forwarding) (asked []wire.Forward, running bool, err error) {
	const tries = 400
	for try := range tries {
		line, err := Connect(sb)
		if err == nil {
			asked, err = line.Forward(w)
			line.Close()
			return asked, true, err
		}
		asked, err = forwardStopped(sb, w)
		if !errors.Is(err, sandbox.ErrRunning) {
			return asked, false, err
		}
		// It is starting or stopping.
		select {
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		case <-time.After(min(time.Duration(try+1)*time.Millisecond, 50*time.Millisecond)):
		}
	}
	return nil, false, ui.Error("the supervisor of sandbox "+sb.Name+" does not answer", "stop it with 'coffer stop --force "+sb.Name+"'")
}

// forwardStopped changes the record of a sandbox that does not run. The ports are
// taken for a moment, to see whether they can be.
func forwardStopped(sb *sandbox.Sandbox, w wire.Forwarding) ([]wire.Forward, error) {
	lock, err := sb.Lock()
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	store, err := sandbox.Open(filepath.Dir(sb.Dir()))
	if err != nil {
		return nil, err
	}
	if sb, err = store.Get(sb.ID); err != nil { // as it is now
		return nil, err
	}
	c, err := plan(sb.Forwards, w)
	if err != nil {
		return nil, err
	}
	for i := range c.fresh {
		e, err := take(sb, &c.fresh[i])
		if err != nil {
			return nil, err
		}
		defer e.close()
	}
	if err := logOnce(sb, c.events(sb.Forwards)...); err != nil {
		return nil, err
	}
	sb.Forwards = c.result()
	return c.asked(w), sb.Save()
}

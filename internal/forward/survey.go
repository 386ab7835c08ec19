package forward

import (
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/cofferhq/coffer/internal/wire"
)

// surveyPatience is how long the guest may take to answer.
const surveyPatience = time.Second

// An inquiry is a question to the guest, one at a time: a guest that does not answer shall not
// collect streams.
type inquiry chan struct{} // takes one

// ask asks the guest. It is false if there is no answer in time. The turn is over when the
// guest has hung up, which may take as long as it likes.
func (q inquiry) ask(s *wire.Session, survey wire.Survey, take func(wire.Ports)) bool {
	late := time.After(surveyPatience)
	select {
	case q <- struct{}{}:
	case <-late:
		return false
	}
	answered := make(chan struct{})
	go func() {
		defer func() { <-q }()
		c, err := s.Open()
		if err != nil {
			close(answered)
			return
		}
		defer wire.HangUp(c)
		var e wire.Event
		if err = wire.WriteMessage(c, wire.Request{Op: wire.OpPorts, Ports: &survey}); err == nil {
			e, err = wire.Answer(c)
		}
		if err == nil && e.Ports != nil {
			take(*e.Ports)
		}
		close(answered)
	}()
	select {
	case <-answered:
		return true
	case <-late:
		return false
	}
}

// Ports are the ways into the sandbox, as far as they are known in time.
func (f *Forwarder) Ports() *wire.Ports {
	p := &wire.Ports{Listening: f.Listening()}
	f.changing.Lock()
	defer f.changing.Unlock()
	for _, one := range f.sb.Forwards {
		p.Forwards = append(p.Forwards, wire.Forward(one))
	}
	return p
}

// Listening is what listens inside: what the guest says now, or what it said last.
func (f *Forwarder) Listening() []wire.Port {
	f.surveys.ask(f.session, wire.Survey{Except: f.plumbing}, func(said wire.Ports) {
		list := believable(said.Listening)
		f.last.Store(&list)
	})
	if list := f.last.Load(); list != nil {
		return *list
	}
	return nil
}

// ListensOn says whether something inside listens on a port. The kernel inside is asked: a daemon
// may complain of a visitor who says nothing, or take it for its only one.
func (f *Forwarder) ListensOn(port uint16) bool {
	return slices.ContainsFunc(f.Listening(), func(p wire.Port) bool { return p.Port == port })
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

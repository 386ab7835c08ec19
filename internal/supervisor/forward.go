package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// loopback is all that a forward is ever bound to.
var loopback = []struct {
	network string
	addr    netip.Addr
}{
	{"tcp4", netip.AddrFrom4([4]byte{127, 0, 0, 1})},
	{"tcp6", netip.IPv6Loopback()},
}

// listenLoopback takes a port on both loopback addresses; 0 takes any that is free. On
// a host without IPv6, one address is all there is.
func listenLoopback(port uint16) (all []net.Listener, got uint16, err error) {
	const tries = 50
	for range tries {
		if all, got, err = tryLoopback(port); err == nil || port != 0 || !errors.Is(err, syscall.EADDRINUSE) {
			break // else: free on one address and taken on the other
		}
	}
	return all, got, err
}

func tryLoopback(port uint16) (all []net.Listener, got uint16, err error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	for _, at := range loopback {
		l, err := config.Listen(context.Background(), at.network, netip.AddrPortFrom(at.addr, port).String())
		if err != nil && len(all) > 0 && noIPv6(err) {
			continue
		}
		if err != nil {
			closeAll(all)
			return nil, 0, err
		}
		all = append(all, l)
		port = uint16(l.Addr().(*net.TCPAddr).Port)
	}
	return all, port, nil
}

func noIPv6(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)
}

func closeAll(all []net.Listener) {
	for _, l := range all {
		l.Close()
	}
}

// take takes the port of a forward, and notes which it is.
func take(sb *sandbox.Sandbox, f *sandbox.Forward) (*entrance, error) {
	for _, p := range sb.Network.HostPorts {
		if p.Inside == f.Inside { // it would only lead back out
			return nil, ui.Error(fmt.Sprintf("port %d inside leads to port %d of this machine already", p.Inside, p.Outside), "publish another port")
		}
	}
	all, port, err := listenLoopback(f.Host)
	if err != nil && f.Any && f.Host != 0 {
		all, port, err = listenLoopback(0) // the one it had is somebody else's now
	}
	if err != nil {
		return nil, refusedPort(sb, *f, err)
	}
	f.Host = port
	e := newEntrance(wire.Target{Port: f.Inside}, all...)
	e.host = port
	return e, nil
}

// refusedPort says why a port cannot be had, and what to do.
func refusedPort(sb *sandbox.Sandbox, f sandbox.Forward, err error) error {
	other := fmt.Sprintf("choose another port, or leave the choice to coffer with :%d", f.Inside)
	if slices.Contains(sb.Forwards, f) && !sb.Ephemeral {
		if _, err := os.Lstat(sb.Home()); err == nil { // it has run before
			other = fmt.Sprintf("free it, or give it up with 'coffer port-forward %s --clear %d'", sb.Name, f.Host)
		}
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		who := "another program"
		if name := holder(sb, f.Host); name != "" {
			who = "sandbox " + name
		}
		return ui.Error(fmt.Sprintf("port %d is taken by %s", f.Host, who), other)
	case errors.Is(err, syscall.EACCES):
		return ui.Error(fmt.Sprintf("port %d is one that only root may listen on", f.Host),
			fmt.Sprintf("choose one above 1023, or leave the choice to coffer with :%d", f.Inside))
	}
	return ui.Hint(fmt.Errorf("listen on port %d: %w", f.Host, err), "%s", other)
}

// holder finds the sandbox of the same store that has a port.
func holder(sb *sandbox.Sandbox, port uint16) string {
	store, err := sandbox.Open(filepath.Dir(sb.Dir()))
	if err != nil {
		return ""
	}
	all, _ := store.List()
	for _, other := range all {
		has := slices.ContainsFunc(other.Forwards, func(f sandbox.Forward) bool { return f.Host == port })
		if has && other.ID != sb.ID && other.Running() {
			return other.Name
		}
	}
	return ""
}

// reserveForwards takes the ports that the record names.
func (s *Supervisor) reserveForwards() error {
	sb := s.Sandbox
	changed := false
	for i := range sb.Forwards {
		f := sb.Forwards[i]
		e, err := take(sb, &f)
		if err != nil {
			return err
		}
		s.openings.forwards = append(s.openings.forwards, e)
		changed = changed || f != sb.Forwards[i]
		sb.Forwards[i] = f
	}
	if changed {
		return sb.Save()
	}
	return nil
}

// forward changes the forwards while the sandbox runs.
func (s *Supervisor) forward(w wire.Forwarding) wire.Event {
	o := &s.openings
	o.changing.Lock()
	defer o.changing.Unlock()
	asked, err := s.change(w)
	if err != nil {
		return wire.Event{Failure: &wire.Failure{Code: 125, Message: err.Error(), Advice: ui.HintOf(err)}}
	}
	return wire.Event{Ports: &wire.Ports{Forwards: asked}}
}

// change takes new ports before it gives up old ones, so that it does all or nothing.
func (s *Supervisor) change(w wire.Forwarding) (asked []wire.Forward, err error) {
	if s.session.IsClosed() {
		return nil, wire.ErrGone
	}
	o := &s.openings
	c, err := plan(s.Sandbox.Forwards, w)
	if err != nil {
		return nil, err
	}
	var fresh []*entrance
	undo := func() {
		for _, e := range fresh {
			e.close()
		}
	}
	for i := range c.fresh {
		e, err := take(s.Sandbox, &c.fresh[i])
		if err != nil {
			undo()
			return nil, err
		}
		fresh = append(fresh, e)
	}
	old := s.Sandbox.Forwards
	s.Sandbox.Forwards = c.result()
	if err := s.Sandbox.Save(); err != nil {
		s.Sandbox.Forwards = old
		undo()
		return nil, err
	}
	o.forwards = slices.DeleteFunc(o.forwards, func(e *entrance) bool {
		stays := slices.ContainsFunc(c.kept, func(f sandbox.Forward) bool { return f.Host == e.host })
		if !stays {
			e.close()
		}
		return !stays
	})
	for _, e := range fresh {
		o.forwards = append(o.forwards, e)
		s.admit(e)
	}
	for _, e := range c.events(old) {
		s.audit.add(e)
	}
	return c.asked(w), nil
}

// planned is a change of forwards.
type planned struct {
	kept, fresh []sandbox.Forward
}

func (c planned) result() []sandbox.Forward { return slices.Concat(c.kept, c.fresh) }

// events are what the log says of a change, of which old were there before.
func (c planned) events(old []sandbox.Forward) (all []audit.Event) {
	for _, f := range old {
		if !slices.Contains(c.kept, f) {
			all = append(all, audit.Event{Kind: audit.KindPort, Port: f.Host, Detail: fmt.Sprintf("no longer forwarded to port %d inside", f.Inside)})
		}
	}
	for _, f := range c.fresh {
		all = append(all, audit.Event{Kind: audit.KindPort, Port: f.Host, Detail: fmt.Sprintf("forwarded to port %d inside", f.Inside)})
	}
	return all
}

// asked are the forwards that somebody asked for, as they have become.
func (c planned) asked(w wire.Forwarding) (all []wire.Forward) {
	for _, a := range w.Add {
		for _, f := range c.result() {
			if same(f, a) {
				all = append(all, wire.Forward(f))
				break
			}
		}
	}
	return all
}

// same says whether a forward is the one that is asked for.
func same(f sandbox.Forward, asked wire.Forward) bool {
	if asked.Host == 0 {
		return f.Any && f.Inside == asked.Inside
	}
	return f.Host == asked.Host && f.Inside == asked.Inside
}

// plan decides which forwards stay and which are new. What is there already is not
// asked for in vain.
func plan(have []sandbox.Forward, w wire.Forwarding) (c planned, err error) {
	c.kept = slices.Clone(have)
	if w.ClearAll {
		c.kept = nil
	}
	for _, gone := range w.Clear {
		n := len(c.kept)
		c.kept = slices.DeleteFunc(c.kept, func(f sandbox.Forward) bool {
			return (gone.Host == 0 || f.Host == gone.Host) && (gone.Inside == 0 || f.Inside == gone.Inside)
		})
		if len(c.kept) == n {
			return c, ui.Error("no port leads "+described(gone), "see 'coffer port-forward --list'")
		}
	}
	for _, a := range w.Add {
		if a.Inside == 0 {
			return c, errors.New("a forward leads to a port, not to 0")
		}
		all := c.result()
		if slices.ContainsFunc(all, func(f sandbox.Forward) bool { return same(f, a) }) {
			continue
		}
		if i := slices.IndexFunc(all, func(f sandbox.Forward) bool { return a.Host != 0 && f.Host == a.Host }); i >= 0 {
			return c, ui.Error(fmt.Sprintf("port %d leads to port %d inside already", a.Host, all[i].Inside),
				fmt.Sprintf("give it up with --clear %d, or choose another", a.Host))
		}
		c.fresh = append(c.fresh, sandbox.Forward{Host: a.Host, Inside: a.Inside, Any: a.Host == 0})
	}
	if n := len(c.result()); n > sandbox.MaxForwards {
		return c, fmt.Errorf("%d forwards are more than the %d there may be", n, sandbox.MaxForwards)
	}
	return c, nil
}

func described(f wire.Forward) string {
	switch {
	case f.Host == 0:
		return fmt.Sprintf("to port %d inside", f.Inside)
	case f.Inside == 0:
		return fmt.Sprintf("from port %d", f.Host)
	}
	return fmt.Sprintf("from port %d to port %d inside", f.Host, f.Inside)
}

package forward

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
			for _, l := range all {
				l.Close()
			}
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
func (f *Forwarder) reserveForwards() error {
	sb := f.sb
	changed := false
	for i := range sb.Forwards {
		was := sb.Forwards[i]
		e, err := take(sb, &sb.Forwards[i])
		if err != nil {
			return err
		}
		f.forwards = append(f.forwards, e)
		changed = changed || was != sb.Forwards[i]
	}
	if changed {
		return sb.Save()
	}
	return nil
}

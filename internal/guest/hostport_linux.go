package guest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/wire"
)

// maxHostPort is how many connections to one port of localhost may lead to the host at once.
const maxHostPort = 256

// openHostPort listens on a port of both loopback addresses, and connects each connection with the
// same port of link.HostName. So the gateway decides about it, as if the program had used that name.
func (a *agent) openHostPort(s net.Conn, port uint16) {
	var listeners []net.Listener
	for _, at := range []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()} {
		l, err := net.Listen("tcp", netip.AddrPortFrom(at, port).String())
		switch {
		case err == nil:
			listeners = append(listeners, l)
		case at.Is4(): // a kernel may have no IPv6
			refuse(s, fmt.Errorf("listen on port %d of localhost inside: %w", port, plain(err)))
			return
		}
	}
	_ = wire.WriteMessage(s, wire.Event{Connected: true})
	wire.HangUp(s)
	slots := make(chan struct{}, maxHostPort)
	for _, l := range listeners {
		go leadToHost(l, netip.AddrPortFrom(link.Host4, port).String(), slots)
	}
}

// leadToHost connects what comes to a listener with an address, while there are slots.
func leadToHost(l net.Listener, to string, slots chan struct{}) {
	for {
		slots <- struct{}{}
		in, err := l.Accept()
		if err != nil {
			<-slots
			time.Sleep(10 * time.Millisecond) // out of descriptors: some will come back
			continue
		}
		go func() {
			defer func() { <-slots }()
			out, err := net.DialTimeout("tcp", to, dialPatience)
			if err != nil {
				wire.Reset(in)
				return
			}
			join(in.(*net.TCPConn), out.(*net.TCPConn))
		}()
	}
}

// join carries bytes both ways until both ends have closed. A connection that breaks breaks the other.
func join(a, b *net.TCPConn) {
	carry := func(to, from *net.TCPConn) {
		_, err := io.Copy(to, from)
		if err = errors.Join(err, to.CloseWrite()); err != nil {
			wire.Reset(a)
			wire.Reset(b)
		}
	}
	var one sync.WaitGroup
	one.Go(func() { carry(a, b) })
	carry(b, a)
	one.Wait()
	a.Close()
	b.Close()
}

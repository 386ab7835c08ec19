package link

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// The kernel's own link. Inside the machine's network namespace every address is made local: a route
// says that all of IPv4 and IPv6 is delivered on the loopback interface, and a rule of nftables
// (TPROXY) hands what arrives there to four listening sockets. The sockets are made inside, at boot, by
// [Prepare]; their descriptors go out to the supervisor, where [Open] makes a link of them. A socket
// belongs for ever to the namespace that it was made in, so the supervisor accepts connections that no
// packet of the host's network ever had a part in.
//
// The kernel keeps the address that a program meant: it is the local address of an accepted
// connection, and comes with every datagram. Answers to datagrams are written by hand, header and all,
// to a raw socket of the namespace, because they come from whatever address and port the program asked.
//
// A connection is made before the gateway has spoken: refusing it takes a reset.
//
// Programs inside cannot change any of this. They have no capability over the network namespace, nor
// has root of the sandbox, which lives in a user namespace below the one that owns it.

// Open makes a link of the sockets that Prepare made, and closes the files.
func Open(files []*os.File) (Link, error) {
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if len(files) != 3 && len(files) != 6 {
		return nil, fmt.Errorf("%d sockets instead of 3 or 6", len(files))
	}
	k := &kernelLink{closed: make(chan struct{}), flows: make(chan *net.TCPConn), datagrams: make(chan datagram)}
	for n := 0; n < len(files); n += 3 {
		s, err := openSide(files[n : n+3])
		if err != nil {
			k.closeSides()
			return nil, err
		}
		k.sides = append(k.sides, s)
	}
	for _, s := range k.sides {
		k.running.Go(func() { k.accept(s.tcp) })
		k.running.Go(func() { k.receive(s.udp) })
	}
	return k, nil
}

// side is one family's sockets.
type side struct {
	tcp *net.TCPListener
	udp *net.UDPConn
	raw *net.IPConn
}

func openSide(files []*os.File) (s side, err error) {
	listener, err := net.FileListener(files[0])
	if err != nil {
		return s, fmt.Errorf("take over the TCP socket: %w", err)
	}
	udp, err := net.FilePacketConn(files[1])
	if err != nil {
		listener.Close()
		return s, fmt.Errorf("take over the UDP socket: %w", err)
	}
	raw, err := net.FilePacketConn(files[2])
	if err != nil {
		listener.Close()
		udp.Close()
		return s, fmt.Errorf("take over the raw socket: %w", err)
	}
	return side{listener.(*net.TCPListener), udp.(*net.UDPConn), raw.(*net.IPConn)}, nil
}

type kernelLink struct {
	sides     []side // IPv4, and IPv6 if there is one
	flows     chan *net.TCPConn
	datagrams chan datagram
	running   sync.WaitGroup
	once      sync.Once
	closed    chan struct{}
}

// Ports are those that the sockets listen at inside. Programs there can see them, and
// people need not.
func (k *kernelLink) Ports() (ports []uint16) {
	for _, s := range k.sides {
		ports = append(ports, s.tcp.Addr().(*net.TCPAddr).AddrPort().Port())
	}
	return ports
}

type datagram struct {
	bytes    []byte
	from, to netip.AddrPort
}

func (k *kernelLink) Close() error {
	k.once.Do(func() {
		close(k.closed)
		k.closeSides()
	})
	k.running.Wait()
	return nil
}

func (k *kernelLink) closeSides() {
	for _, s := range k.sides {
		s.tcp.Close()
		s.udp.Close()
		s.raw.Close()
	}
}

// accept takes connections of one family. Being out of descriptors is no reason to end.
func (k *kernelLink) accept(l *net.TCPListener) {
	for {
		c, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if k.pause() {
				continue
			}
			return
		}
		select {
		case k.flows <- c:
		case <-k.closed:
			c.Close()
			return
		}
	}
}

func (k *kernelLink) Accept() (Flow, error) {
	select {
	case c := <-k.flows:
		return flow{c}, nil
	case <-k.closed:
		return nil, net.ErrClosed
	}
}

// flow is a connection that the kernel has accepted already.
type flow struct{ c *net.TCPConn }

func (f flow) Source() netip.AddrPort      { return ends(f.c.RemoteAddr()) }
func (f flow) Destination() netip.AddrPort { return ends(f.c.LocalAddr()) }
func (f flow) Accept() (Conn, error)       { return conn{f.c}, nil }
func (f flow) Refuse()                     { conn{f.c}.Reset() }

func ends(a net.Addr) netip.AddrPort {
	at := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// conn is a connection that can be reset.
type conn struct{ *net.TCPConn }

func (c conn) Reset() {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// maxDatagram is more than a datagram can have.
const maxDatagram = 1 << 16

// receive takes datagrams of one family.
func (k *kernelLink) receive(c *net.UDPConn) {
	buf, oob := make([]byte, max(maxDatagram, cap(k.datagrams))), make([]byte, 128) // see batch.hear
	for {
		n, got, _, from, err := c.ReadMsgUDPAddrPort(buf, oob)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if k.pause() {
				continue
			}
			return
		}
		to, ok := original(oob[:got])
		if !ok || to.Addr().IsLoopback() {
			continue // sent to our socket itself
		}
		d := datagram{append([]byte(nil), buf[:n]...), netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), to}
		select {
		case k.datagrams <- d:
		case <-k.closed:
			return
		}
	}
}

// original is the address that a datagram was sent to.
func original(oob []byte) (netip.AddrPort, bool) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return netip.AddrPort{}, false
	}
	for _, m := range messages {
		sa, err := unix.ParseOrigDstAddr(&m)
		if err != nil {
			continue
		}
		switch a := sa.(type) {
		case *unix.SockaddrInet4:
			return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)), true
		case *unix.SockaddrInet6:
			return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port)), true
		}
	}
	return netip.AddrPort{}, false
}

func (k *kernelLink) ReadDatagram(b []byte) (int, netip.AddrPort, netip.AddrPort, error) {
	select {
	case d := <-k.datagrams:
		return copy(b, d.bytes), d.from, d.to, nil
	case <-k.closed:
		return 0, netip.AddrPort{}, netip.AddrPort{}, net.ErrClosed
	}
}

func (k *kernelLink) WriteDatagram(b []byte, from, to netip.AddrPort) error {
	return k.inject(from.Addr(), to.Addr(), header.UDPProtocolNumber, udp(b, from, to))
}

func (k *kernelLink) RefuseDatagram(from, to netip.AddrPort) error {
	protocol, message := unreachable(from, to)
	return k.inject(to.Addr(), from.Addr(), protocol, message)
}

// inject sends a packet into the machine.
func (k *kernelLink) inject(from, to netip.Addr, protocol tcpip.TransportProtocolNumber, payload []byte) error {
	n := 0
	if from.Is6() {
		n = 1
	}
	if from.Is6() != to.Is6() || n >= len(k.sides) {
		return fmt.Errorf("no way from %s to %s", from, to)
	}
	p, err := packet(from, to, protocol, payload)
	if err != nil {
		return err
	}
	_, err = k.sides[n].raw.WriteToIP(p, &net.IPAddr{IP: to.AsSlice()})
	return err
}

// pause waits a moment before the next try. It says no when the link is closed.
func (k *kernelLink) pause() bool {
	select {
	case <-k.closed:
		return false
	case <-time.After(10 * time.Millisecond):
		return true
	}
}

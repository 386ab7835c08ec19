package packet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/cofferhq/coffer/internal/link"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// A flow is a SYN that has not been answered yet.
type flow struct {
	link                *Link
	request             *tcp.ForwarderRequest
	source, destination netip.AddrPort
}

// incoming is called by the stack with every new SYN, in a goroutine of its own.
func (l *Link) incoming(r *tcp.ForwarderRequest) {
	id := r.ID()
	f := &flow{
		link:        l,
		request:     r,
		source:      netip.AddrPortFrom(addrOf(id.RemoteAddress), id.RemotePort),
		destination: netip.AddrPortFrom(addrOf(id.LocalAddress), id.LocalPort),
	}
	if !l.connections.enter(f) {
		// Too many. A clear answer is better than a program that waits.
		r.Complete(true)
		return
	}
	l.flows <- f // it has room for all that the stack lets wait
}

func (f *flow) Source() netip.AddrPort      { return f.source }
func (f *flow) Destination() netip.AddrPort { return f.destination }

// Accept answers the SYN and waits for the machine to acknowledge.
func (f *flow) Accept() (link.Conn, error) {
	if !f.link.connections.decided(f) {
		return nil, fmt.Errorf("accept %s: %w", f.destination, net.ErrClosed)
	}
	queue := new(waiter.Queue)
	e, err := f.request.CreateEndpoint(queue)
	if err != nil {
		// The program has given up, or the link has. A reset does no harm in either
		// case, and helps where it is us who failed.
		f.request.Complete(true)
		f.link.connections.leave()
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: net.TCPAddrFromAddrPort(f.destination), Err: errors.New(err.String())}
	}
	f.request.Complete(false)
	select {
	case <-f.link.closed:
		// The stack may have gone through its connections before this one was there.
		e.Abort()
		e.Close()
		f.link.connections.leave()
		return nil, net.ErrClosed
	default:
	}
	f.link.connections.size(e)
	return newConn(f.link, queue, e), nil
}

// Refuse resets the connection before it exists.
func (f *flow) Refuse() {
	if !f.link.connections.decided(f) {
		return
	}
	f.request.Complete(true)
	f.link.connections.leave()
}

// renewed looks for a SYN that asks for a connection which is still on its way out
// here. The machine's kernel has done with it, or would not use its port again; so
// have we then. The stack would take the SYN for a part of the old connection.
func (l *Link) renewed(protocol tcpip.NetworkProtocolNumber, from, to netip.Addr, h header.TCP) {
	if h.Flags()&(header.TCPFlagSyn|header.TCPFlagAck) != header.TCPFlagSyn {
		return
	}
	e, ok := l.stack.FindTransportEndpoint(protocol, tcp.ProtocolNumber, stack.TransportEndpointID{
		LocalAddress:  tcpip.AddrFromSlice(to.AsSlice()),
		LocalPort:     h.DestinationPort(),
		RemoteAddress: tcpip.AddrFromSlice(from.AsSlice()),
		RemotePort:    h.SourcePort(),
	}, nic).(*tcp.Endpoint)
	if !ok {
		return
	}
	switch e.EndpointState() {
	case tcp.StateFinWait1, tcp.StateFinWait2, tcp.StateClosing, tcp.StateLastAck, tcp.StateTimeWait:
		e.Abort()
	}
}

func addrOf(a tcpip.Address) netip.Addr {
	addr, _ := netip.AddrFromSlice(a.AsSlice())
	return addr
}

package link

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/link/nested"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	gipv4 "gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	gipv6 "gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	gudp "gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// The link for hosts without nftables. The machine has one Ethernet interface, a veth pair, whose
// packets gVisor's TCP/IP stack reads from a packet socket on its far side. The stack takes
// connections to every address. Datagrams are read before it has anything to do with them, and
// answers to them are made as in the kernel's link; so are those to pings, of which the ones to
// addresses that names can have are answered.
//
// The wire has no other end, so there are no neighbours to find: the addresses of both sides are fixed.

const (
	// mtu is the packet size. With packets this large, the cost of each, which is most of the
	// cost of a stack in user space, hardly counts.
	mtu = 65535
	nic = 1

	// maxConnections is how many there may be, with those that are still on their way out.
	maxConnections = 4096
	// maxUndecided is how many may wait for a decision. The SYN of another one is ignored; the
	// program's kernel repeats it.
	maxUndecided = 2048
	// Buffers of a connection, each way. The more connections there are, the less a new one may
	// take: what is written to programs that do not read is the supervisor's memory.
	allBuffers = 16 << 20
	maxBuffer  = 4 << 20
	minBuffer  = 64 << 10
	// wireBuffer is how much may wait in the kernel to be read. A packet is 64 kB, and a machine may
	// send several before we get to run. Ordinary users get what net.core.rmem_max allows.
	wireBuffer = 4 << 20
	// maxDatagrams is how many wait to be read. Further ones are lost.
	maxDatagrams = 64

	// synRetries gives up a connection that nobody acknowledges after 1+2+4+8 seconds.
	synRetries = 3
	// lingerTimeout bounds how long the machine may keep its half of a connection that we closed,
	// and departTime how long what we wrote before may stay unread.
	lingerTimeout = 20 * time.Second
	departTime    = 10 * time.Minute
	// memory is what a process with such a link should make do with, unless the user has set a
	// limit (GOMEMLIMIT): what a burst has used is given back.
	memory = 120 << 20
)

// quiet keeps the stack from writing about the machine's strange packets to standard
// error, which is the user's terminal.
var quiet = sync.OnceFunc(func() {
	log.SetTarget(&log.GoogleEmitter{Writer: &log.Writer{Next: io.Discard}})
})

type packetLink struct {
	socket    *os.File
	wire      wire
	stack     *stack.Stack
	flows     chan *packetFlow
	datagrams chan datagram
	closing   sync.Once
	closed    chan struct{}

	mu        sync.Mutex
	undecided map[*packetFlow]bool
}

// A wire is the stack's interface, which sees what the machine sends first.
type wire struct {
	nested.Endpoint
	link *packetLink
}

// The Ethernet addresses of the far side and of the machine.
var (
	ownMAC     = net.HardwareAddr{0x02, 0x63, 0x6f, 0x66, 0x65, 0x01}
	machineMAC = net.HardwareAddr{0x02, 0x63, 0x6f, 0x66, 0x65, 0x02}
)

// OpenPackets makes a link of the socket that PreparePackets made, which it owns.
func OpenPackets(socket *os.File) (Link, error) {
	quiet()
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(memory)
	}
	l := &packetLink{
		socket: socket, flows: make(chan *packetFlow, maxUndecided), datagrams: make(chan datagram, maxDatagrams), closed: make(chan struct{}), undecided: map[*packetFlow]bool{},
		stack: stack.New(stack.Options{
			NetworkProtocols:   []stack.NetworkProtocolFactory{gipv4.NewProtocol, gipv6.NewProtocol, arp.NewProtocol},
			TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocolCUBIC, gudp.NewProtocol},
		}),
	}
	if err := l.start(); err != nil {
		socket.Close()
		return nil, fmt.Errorf("start the TCP/IP stack: %w", err)
	}
	return l, nil
}

// start attaches the stack to the wire.
func (l *packetLink) start() error {
	fd := int(l.socket.Fd())
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, wireBuffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, wireBuffer)
	}
	device, err := fdbased.New(&fdbased.Options{
		FDs: []int{fd}, MTU: mtu, EthernetHeader: true, Address: tcpip.LinkAddress(ownMAC),
		PacketDispatchMode: fdbased.RecvMMsg, PreConfigured: true, IsPacketSocket: []bool{true},
		// Nothing can change a packet between the machine's memory and ours, so checksums prove
		// nothing, and those of a veth pair are not even filled in.
		RXChecksumOffload: true,
		ClosedFunc:        func(tcpip.Error) { go l.Close() }, // which waits for the caller
	})
	if err != nil {
		return err
	}
	l.wire.link = l
	l.wire.Init(device, &l.wire)
	forwarder := tcp.NewForwarder(l.stack, minBuffer, maxUndecided, l.incoming)
	l.stack.SetTransportProtocolHandler(tcp.ProtocolNumber, forwarder.HandlePacket)
	l.stack.SetTransportProtocolHandler(gudp.ProtocolNumber, l.received)
	for _, o := range []tcpip.SettableTransportProtocolOption{
		ptr(tcpip.TCPSACKEnabled(true)),
		ptr(tcpip.TCPTimeWaitTimeoutOption(0)), // the wire does not reorder, and programs use ports again at once
		ptr(tcpip.TCPLingerTimeoutOption(lingerTimeout)),
		ptr(tcpip.TCPSynRetriesOption(synRetries)),
	} {
		if err := l.stack.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return fmt.Errorf("set %T: %s", o, err)
		}
	}
	if err := l.stack.CreateNIC(nic, &l.wire); err != nil {
		return errors.New(err.String())
	}
	// To be every address there is: take packets for any, send packets from any.
	if err := l.stack.SetPromiscuousMode(nic, true); err != nil {
		return errors.New(err.String())
	}
	if err := l.stack.SetSpoofing(nic, true); err != nil {
		return errors.New(err.String())
	}
	l.stack.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}, {Destination: header.IPv6EmptySubnet, NIC: nic}})
	for _, own := range []netip.Addr{Own4, Own6} {
		if err := l.stack.AddStaticNeighbor(nic, protocolOf(own), address(own), tcpip.LinkAddress(machineMAC)); err != nil {
			return errors.New(err.String())
		}
	}
	return nil
}

func ptr[T any](v T) *T { return &v }

func protocolOf(a netip.Addr) tcpip.NetworkProtocolNumber {
	if a.Is4() {
		return header.IPv4ProtocolNumber
	}
	return header.IPv6ProtocolNumber
}

// Accept waits for the next connection.
func (l *packetLink) Accept() (Flow, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case f := <-l.flows:
		return f, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends the link. Programs inside get resets for their connections.
func (l *packetLink) Close() error {
	l.closing.Do(func() {
		close(l.closed)
		l.mu.Lock()
		undecided := slices.Collect(maps.Keys(l.undecided))
		l.mu.Unlock()
		for _, f := range undecided {
			f.Refuse()
		}
		l.stack.Close() // its resets still go out
		l.wire.Attach(nil)
		l.socket.Close()
	})
	return nil
}

// DeliverNetworkPacket sees every packet of the machine first.
func (w *wire) DeliverNetworkPacket(protocol tcpip.NetworkProtocolNumber, p *stack.PacketBuffer) {
	size := header.IPv4MinimumSize
	if protocol == header.IPv6ProtocolNumber {
		size = header.IPv6MinimumSize
	}
	b, ok := p.Data().PullUp(min(size+header.TCPMinimumSize, p.Data().Size()))
	if !ok || len(b) < size+header.ICMPv4MinimumSize {
		return // no packet that anybody needs is so short
	}
	var next byte
	var from, to netip.Addr
	switch protocol {
	case header.IPv4ProtocolNumber:
		if header.IPv4(b).HeaderLength() != header.IPv4MinimumSize {
			return // options are for routers, and code to read them is better not exposed
		}
		next, from, to = b[9], netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	case header.IPv6ProtocolNumber:
		next, from, to = b[6], netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	default:
		return
	}
	switch {
	case to.IsLoopback() || to.IsMulticast() || to.IsUnspecified():
		return
	case next == unix.IPPROTO_HOPOPTS || next == unix.IPPROTO_ROUTING || next == unix.IPPROTO_DSTOPTS: // the options of IPv6
		return
	case next == ipv4.icmp && b[size] == ipv4.echo, next == ipv6.icmp && b[size] == ipv6.echo:
		protocol, message := refusal(from, to, b, header.ICMPv4AdminProhibited, header.ICMPv6Prohibited)
		if Synthetic4.Contains(to) || Synthetic6.Contains(to) {
			message = echoed(from, to, p.Data().AsRange().ToSlice()[size:])
		}
		_ = w.link.inject(to, from, protocol, message)
		return
	case next == unix.IPPROTO_TCP && len(b) >= size+header.TCPMinimumSize:
		w.link.renew(protocol, from, to, b[size:])
	}
	w.Endpoint.DeliverNetworkPacket(protocol, p)
}

// renew looks for a SYN that asks for a connection which is still on its way out here. The machine's
// kernel has done with it, or would not use its port again. The stack would take the SYN for a part
// of the old connection.
func (l *packetLink) renew(protocol tcpip.NetworkProtocolNumber, from, to netip.Addr, h header.TCP) {
	if h.Flags()&(header.TCPFlagSyn|header.TCPFlagAck) != header.TCPFlagSyn {
		return
	}
	e, ok := l.stack.FindTransportEndpoint(protocol, tcp.ProtocolNumber, stack.TransportEndpointID{
		LocalAddress: address(to), LocalPort: h.DestinationPort(),
		RemoteAddress: address(from), RemotePort: h.SourcePort(),
	}, nic).(*tcp.Endpoint)
	if !ok {
		return
	}
	switch e.EndpointState() {
	case tcp.StateFinWait1, tcp.StateFinWait2, tcp.StateClosing, tcp.StateLastAck, tcp.StateTimeWait:
		e.Abort()
	}
}

// received gets the datagrams of the machine, whole.
func (l *packetLink) received(id stack.TransportEndpointID, p *stack.PacketBuffer) bool {
	d := datagram{p.Data().AsRange().ToSlice(), addrPort(id.RemoteAddress, id.RemotePort), addrPort(id.LocalAddress, id.LocalPort)}
	select {
	case l.datagrams <- d:
	default:
	}
	return true
}

func addrPort(a tcpip.Address, port uint16) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(a.AsSlice())
	return netip.AddrPortFrom(addr, port)
}

func (l *packetLink) ReadDatagram(b []byte) (int, netip.AddrPort, netip.AddrPort, error) {
	select {
	case <-l.closed:
		return 0, netip.AddrPort{}, netip.AddrPort{}, net.ErrClosed
	default:
	}
	select {
	case d := <-l.datagrams:
		return copy(b, d.bytes), d.from, d.to, nil
	case <-l.closed:
		return 0, netip.AddrPort{}, netip.AddrPort{}, net.ErrClosed
	}
}

func (l *packetLink) WriteDatagram(b []byte, from, to netip.AddrPort) error {
	return l.inject(from.Addr(), to.Addr(), header.UDPProtocolNumber, udp(b, from, to))
}

func (l *packetLink) RefuseDatagram(from, to netip.AddrPort) error {
	protocol, message := unreachable(from, to)
	return l.inject(to.Addr(), from.Addr(), protocol, message)
}

// inject sends a packet to the machine.
func (l *packetLink) inject(from, to netip.Addr, protocol tcpip.TransportProtocolNumber, payload []byte) error {
	select {
	case <-l.closed:
		return net.ErrClosed
	default:
	}
	if from.Is6() != to.Is6() {
		return fmt.Errorf("no way from %s to %s", from, to)
	}
	p, err := packet(from, to, protocol, payload)
	if err != nil {
		return err
	}
	if err := l.stack.WritePacketToRemote(nic, tcpip.LinkAddress(machineMAC), protocolOf(to), buffer.MakeWithData(p)); err != nil {
		return fmt.Errorf("send to the machine: %s", err)
	}
	return nil
}

// A packetFlow is a SYN that has not been answered yet.
type packetFlow struct {
	link                *packetLink
	request             *tcp.ForwarderRequest
	source, destination netip.AddrPort
}

// incoming is called by the stack with every new SYN, in a goroutine of its own.
func (l *packetLink) incoming(r *tcp.ForwarderRequest) {
	if len(l.stack.RegisteredEndpoints()) >= maxConnections {
		r.Complete(true)
		return
	}
	id := r.ID()
	f := &packetFlow{l, r, addrPort(id.RemoteAddress, id.RemotePort), addrPort(id.LocalAddress, id.LocalPort)}
	l.mu.Lock()
	l.undecided[f] = true
	l.mu.Unlock()
	select {
	case l.flows <- f: // there is room for all that the stack lets wait
	case <-l.closed:
		f.Refuse()
	}
}

// decide says whether the flow was undecided.
func (f *packetFlow) decide() bool {
	f.link.mu.Lock()
	defer f.link.mu.Unlock()
	was := f.link.undecided[f]
	delete(f.link.undecided, f)
	return was
}

func (f *packetFlow) Source() netip.AddrPort      { return f.source }
func (f *packetFlow) Destination() netip.AddrPort { return f.destination }

func (f *packetFlow) Refuse() {
	if f.decide() {
		f.request.Complete(true)
	}
}

// Accept answers the SYN and waits for the machine to acknowledge.
func (f *packetFlow) Accept() (Conn, error) {
	if !f.decide() {
		return nil, net.ErrClosed
	}
	queue := new(waiter.Queue)
	e, err := f.request.CreateEndpoint(queue)
	f.request.Complete(err != nil) // the program has given up, and a reset does no harm
	if err != nil {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: net.TCPAddrFromAddrPort(f.destination), Err: errors.New(err.String())}
	}
	select {
	case <-f.link.closed: // perhaps after the stack has gone through its connections
		e.Abort()
		return nil, net.ErrClosed
	default:
	}
	size := int64(max(minBuffer, min(maxBuffer, allBuffers/max(1, len(f.link.stack.RegisteredEndpoints())))))
	e.SocketOptions().SetReceiveBufferSize(size, false)
	e.SocketOptions().SetSendBufferSize(size, false)
	return &packetConn{TCPConn: gonet.NewTCPConn(queue, e), endpoint: e}, nil
}

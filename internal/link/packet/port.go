package packet

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// A wire carries Ethernet frames.
type wire interface {
	// receive hands over frames until the wire ends. A frame is valid during the call
	// only. Of a frame that stands for several UDP datagrams, segment is the size of each.
	receive(frame func(b []byte, segment int))
	// send sends a frame, given in parts. It may be called from several goroutines,
	// and it does not wait: what finds no room is lost, as on any network.
	send(parts [][]byte, o offload) bool
	// offloads says whether send can do what an offload asks.
	offloads() bool
	// close ends receive, and everything else.
	close()
}

// An offload is work on a TCP segment that is left to the other side: the checksum,
// and the cutting into packets.
type offload struct {
	checksum bool
	start    uint16 // where the TCP header starts, in the frame
	offset   uint16 // and the checksum in it
	segment  uint16 // size to cut into, 0: leave whole
	headers  uint16 // size of all headers
	v6       bool
}

// The Ethernet addresses of this side and, until its first frame, of the machine.
var (
	ownMAC     = mac{0x02, 0x63, 0x6f, 0x66, 0x65, 0x01}
	machineMAC = mac{0x02, 0x63, 0x6f, 0x66, 0x65, 0x02}
)

type mac [6]byte

func (m mac) bits() uint64 {
	return uint64(binary.BigEndian.Uint16(m[:]))<<32 | uint64(binary.BigEndian.Uint32(m[2:]))
}

func macOf(bits uint64) (m mac) {
	binary.BigEndian.PutUint16(m[:], uint16(bits>>32))
	binary.BigEndian.PutUint32(m[2:], uint32(bits))
	return m
}

// A port is the end of the wire at the stack: what gVisor calls a link endpoint.
type port struct {
	wire wire
	peer atomic.Uint64 // the machine's Ethernet address

	dispatcher atomic.Pointer[stack.NetworkDispatcher]
	reading    sync.WaitGroup
}

var (
	_ stack.LinkEndpoint = (*port)(nil)
	_ stack.GSOEndpoint  = (*port)(nil)
)

func newPort(w wire) *port {
	p := &port{wire: w}
	p.peer.Store(machineMAC.bits())
	return p
}

// start hands over frames until the wire ends, and then calls ended.
func (p *port) start(frame func([]byte, int), ended func()) {
	p.reading.Go(func() {
		p.wire.receive(frame)
		go ended() // it waits for this goroutine
	})
}

func (p *port) close() {
	p.wire.close()
	p.reading.Wait()
}

// deliver gives an IP packet, of which the first bytes are headers, to the stack. Those
// go into a buffer of their own, because the stack makes copies of the buffer that
// they are in: that should not be all of the packet.
func (p *port) deliver(protocol tcpip.NetworkProtocolNumber, packet []byte, headers int) {
	d := p.dispatcher.Load()
	if d == nil {
		return
	}
	headers = min(headers, len(packet))
	payload := buffer.MakeWithView(buffer.NewViewWithData(packet[:headers]))
	if rest := packet[headers:]; len(rest) > 0 {
		payload.Append(buffer.NewViewWithData(rest))
	}
	b := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: payload})
	(*d).DeliverNetworkPacket(protocol, b)
	b.DecRef()
}

// answer sends a frame of our own making, whose Ethernet header is still empty.
func (p *port) answer(frame []byte, protocol tcpip.NetworkProtocolNumber) {
	p.ethernet(frame, protocol)
	p.wire.send([][]byte{frame}, offload{})
}

func (p *port) ethernet(b []byte, protocol tcpip.NetworkProtocolNumber) {
	peer := macOf(p.peer.Load())
	copy(b, peer[:])
	copy(b[6:], ownMAC[:])
	binary.BigEndian.PutUint16(b[12:], uint16(protocol))
}

// WritePackets sends what the stack sends.
func (p *port) WritePackets(list stack.PacketBufferList) (int, tcpip.Error) {
	sent := 0
	for _, b := range list.AsSlice() {
		if !p.wire.send(b.AsSlices(), offloadOf(b)) {
			break
		}
		sent++
	}
	if sent == 0 && list.Len() > 0 {
		return 0, &tcpip.ErrNoBufferSpace{}
	}
	return sent, nil
}

func offloadOf(b *stack.PacketBuffer) offload {
	g := b.GSOOptions
	if (g.Type != stack.GSOTCPv4 && g.Type != stack.GSOTCPv6) || !g.NeedsCsum {
		return offload{}
	}
	o := offload{
		checksum: true,
		start:    header.EthernetMinimumSize + g.L3HdrLen,
		offset:   g.CsumOffset,
		headers:  uint16(b.HeaderSize()),
		v6:       g.Type == stack.GSOTCPv6,
	}
	if b.Data().Size() > int(g.MSS) {
		o.segment = g.MSS
	}
	return o
}

// AddHeader puts the Ethernet header before a packet.
func (p *port) AddHeader(b *stack.PacketBuffer) {
	p.ethernet(b.LinkHeader().Push(header.EthernetMinimumSize), b.NetworkProtocolNumber)
}

// Capabilities: nothing can change a packet between the machine's memory and ours, so
// that checksums prove nothing, and those of a veth pair are not even filled in.
func (p *port) Capabilities() stack.LinkEndpointCapabilities {
	return stack.CapabilityRXChecksumOffload
}

// SupportedGSO says whether segments larger than a packet may be sent.
func (p *port) SupportedGSO() stack.SupportedGSO {
	if p.wire.offloads() {
		return stack.HostGSOSupported
	}
	return stack.GSONotSupported
}

func (p *port) GSOMaxSize() uint32 { return 65535 }

func (p *port) Attach(d stack.NetworkDispatcher) {
	if d == nil {
		p.dispatcher.Store(nil)
		return
	}
	p.dispatcher.Store(&d)
}

func (p *port) IsAttached() bool                        { return p.dispatcher.Load() != nil }
func (p *port) MTU() uint32                             { return MTU }
func (p *port) SetMTU(uint32)                           {}
func (p *port) MaxHeaderLength() uint16                 { return header.EthernetMinimumSize }
func (p *port) LinkAddress() tcpip.LinkAddress          { return tcpip.LinkAddress(ownMAC[:]) }
func (p *port) SetLinkAddress(tcpip.LinkAddress)        {}
func (p *port) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareEther }
func (p *port) ParseHeader(*stack.PacketBuffer) bool    { return true }
func (p *port) Wait()                                   {}
func (p *port) Close()                                  {}
func (p *port) SetOnCloseAction(func())                 {}

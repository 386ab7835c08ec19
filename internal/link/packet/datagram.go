package packet

import (
	"fmt"
	"net"
	"net/netip"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// Datagrams that wait to be read. Further ones are lost.
const (
	maxDatagrams     = 512
	maxDatagramBytes = 2 << 20
)

type datagram struct {
	payload  []byte
	from, to netip.AddrPort
}

// received queues the UDP datagram, with its header, of an IP packet. A segment is the
// size of each of several datagrams that have one header in common.
func (l *Link) received(from, to netip.Addr, udp []byte, segment int) {
	h := header.UDP(udp)
	if len(h) < header.UDPMinimumSize || int(h.Length()) < header.UDPMinimumSize || int(h.Length()) > len(h) {
		return
	}
	payload := h[header.UDPMinimumSize:h.Length()]
	source, destination := netip.AddrPortFrom(from, h.SourcePort()), netip.AddrPortFrom(to, h.DestinationPort())
	for segment > 0 && len(payload) > segment {
		l.enqueue(source, destination, payload[:segment])
		payload = payload[segment:]
	}
	l.enqueue(source, destination, payload)
}

func (l *Link) enqueue(from, to netip.AddrPort, payload []byte) {
	n := int64(len(payload))
	if l.queued.Add(n) > maxDatagramBytes {
		l.queued.Add(-n)
		return
	}
	select {
	case l.datagrams <- datagram{payload: append([]byte(nil), payload...), from: from, to: to}:
	default:
		l.queued.Add(-n)
	}
}

// reassembled gets the datagrams that the stack has put together from fragments; all
// others do not come this far.
func (l *Link) reassembled(id stack.TransportEndpointID, b *stack.PacketBuffer) bool {
	udp := append([]byte(nil), b.TransportHeader().Slice()...)
	udp = append(udp, b.Data().AsRange().ToSlice()...)
	l.received(addrOf(id.RemoteAddress), addrOf(id.LocalAddress), udp, 0)
	return true
}

// ReadDatagram waits for the next UDP datagram.
func (l *Link) ReadDatagram(b []byte) (n int, from, to netip.AddrPort, err error) {
	select {
	case <-l.closed:
		return 0, from, to, net.ErrClosed
	default:
	}
	select {
	case d := <-l.datagrams:
		l.queued.Add(-int64(len(d.payload)))
		return copy(b, d.payload), d.from, d.to, nil
	case <-l.closed:
		return 0, from, to, net.ErrClosed
	}
}

// WriteDatagram sends a datagram to a program inside.
func (l *Link) WriteDatagram(b []byte, from, to netip.AddrPort) error {
	if err := l.sendable(from, to); err != nil {
		return err
	}
	const maxPayload = 65535 - header.UDPMinimumSize - header.IPv4MinimumSize
	if len(b) > maxPayload {
		return fmt.Errorf("datagram from %s to %s: %d bytes are too many", from, to, len(b))
	}
	protocol := header.IPv4ProtocolNumber
	if to.Addr().Is6() {
		protocol = header.IPv6ProtocolNumber
	}
	r, terr := l.stack.FindRoute(nic, tcpip.AddrFromSlice(from.Addr().AsSlice()), tcpip.AddrFromSlice(to.Addr().AsSlice()), protocol, false)
	if terr != nil {
		return fmt.Errorf("datagram from %s to %s: %s", from, to, terr)
	}
	defer r.Release()

	p := stack.NewPacketBuffer(stack.PacketBufferOptions{
		ReserveHeaderBytes: header.UDPMinimumSize + int(r.MaxHeaderLength()),
		Payload:            buffer.MakeWithData(b),
	})
	defer p.DecRef()
	p.TransportProtocolNumber = header.UDPProtocolNumber
	h := header.UDP(p.TransportHeader().Push(header.UDPMinimumSize))
	length := uint16(p.Size())
	h.Encode(&header.UDPFields{SrcPort: from.Port(), DstPort: to.Port(), Length: length})
	sum := checksum.Combine(r.PseudoHeaderChecksum(header.UDPProtocolNumber, length), p.Data().Checksum())
	sum = ^h.CalculateChecksum(sum)
	if sum == 0 {
		sum = 0xffff // 0 means that there is none
	}
	h.SetChecksum(sum)
	if err := r.WritePacket(stack.NetworkHeaderParams{Protocol: header.UDPProtocolNumber, TTL: r.DefaultTTL()}, p); err != nil {
		return fmt.Errorf("datagram from %s to %s: %s", from, to, err)
	}
	return nil
}

// RefuseDatagram sends an ICMP message about a datagram. Kernels look at addresses and
// ports in the copy that it quotes, and at nothing else, so it can be made up: there
// is no need to keep every datagram until it is known what becomes of it.
func (l *Link) RefuseDatagram(from, to netip.AddrPort) error {
	if err := l.sendable(to, from); err != nil {
		return err
	}
	udp := make(header.UDP, header.UDPMinimumSize)
	udp.Encode(&header.UDPFields{SrcPort: from.Port(), DstPort: to.Port(), Length: header.UDPMinimumSize})
	if from.Addr().Is4() {
		l.refuse4(headed4(header.UDPProtocolNumber, from.Addr(), to.Addr(), udp), portUnreachable4)
	} else {
		l.refuse6(headed6(header.UDPProtocolNumber, from.Addr(), to.Addr(), udp), portUnreachable6)
	}
	return nil
}

// sendable says whether packets can go from from to to.
func (l *Link) sendable(from, to netip.AddrPort) error {
	select {
	case <-l.closed:
		return net.ErrClosed
	default:
	}
	for _, a := range []netip.Addr{from.Addr(), to.Addr()} {
		if !unicast(a) || a.Zone() != "" {
			return fmt.Errorf("datagram from %s to %s: not an address of one machine", from, to)
		}
	}
	if from.Addr().Is4() != to.Addr().Is4() {
		return fmt.Errorf("datagram from %s to %s: not the same kind of address", from, to)
	}
	return nil
}

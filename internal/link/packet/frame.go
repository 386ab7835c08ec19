package packet

import (
	"encoding/binary"
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

const ethernetSize = header.EthernetMinimumSize

// sort decides what becomes of a frame. Its bytes are the machine's, which may be
// hostile; they are valid during the call only.
func (l *Link) sort(frame []byte, segment int) {
	if len(frame) < ethernetSize {
		return
	}
	l.learn(mac(frame[6:12]))
	body := frame[ethernetSize:]
	switch binary.BigEndian.Uint16(frame[12:]) {
	case uint16(header.IPv4ProtocolNumber):
		l.sort4(body, segment)
	case uint16(header.IPv6ProtocolNumber):
		l.sort6(body, segment)
	case uint16(header.ARPProtocolNumber):
		l.arp(body)
	}
}

// learn takes the sender's Ethernet address as the machine's.
func (l *Link) learn(m mac) {
	if m[0]&1 == 0 && m != (mac{}) && l.port.peer.Load() != m.bits() {
		l.port.peer.Store(m.bits())
	}
}

func (l *Link) sort4(b []byte, segment int) {
	h := header.IPv4(b)
	if len(b) < header.IPv4MinimumSize || b[0]>>4 != 4 {
		return
	}
	size, total := int(h.HeaderLength()), int(h.TotalLength())
	if size < header.IPv4MinimumSize || total < size || total > len(b) {
		return
	}
	b = b[:total] // small frames are padded
	from, to := netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	if !unicast(from) || !unicast(to) {
		return
	}
	first := h.FragmentOffset() == 0
	fragment := !first || h.More()
	protocol := h.TransportProtocol()
	switch {
	case size > header.IPv4MinimumSize:
		// Options are for routers. Nobody needs them, and code to read them is
		// better not exposed.
		l.refuse4(b, prohibited4)
	case protocol == header.TCPProtocolNumber && !fragment:
		l.segment(header.IPv4ProtocolNumber, from, to, b, size)
	case protocol == header.TCPProtocolNumber, protocol == header.UDPProtocolNumber && fragment:
		l.port.deliver(header.IPv4ProtocolNumber, b, len(b))
	case protocol == header.UDPProtocolNumber:
		l.received(from, to, b[size:], segment)
	case protocol == header.ICMPv4ProtocolNumber && !fragment:
		l.icmp4(b, to)
	case !first:
		// The first fragment has been refused.
	case protocol == header.ICMPv4ProtocolNumber:
		l.refuse4(b, prohibited4)
	default:
		l.refuse4(b, protocolUnreachable4)
	}
}

func (l *Link) sort6(b []byte, segment int) {
	h := header.IPv6(b)
	if len(b) < header.IPv6MinimumSize || b[0]>>4 != 6 {
		return
	}
	total := header.IPv6MinimumSize + int(h.PayloadLength())
	if total > len(b) {
		return
	}
	b = b[:total]
	payload := b[header.IPv6MinimumSize:]
	from, to := netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	next := h.NextHeader()
	if next == uint8(header.ICMPv6ProtocolNumber) && l.neighbour(h, payload) {
		return
	}
	if !unicast(from) || !unicast(to) {
		return
	}
	switch next {
	case uint8(header.TCPProtocolNumber):
		l.segment(header.IPv6ProtocolNumber, from, to, b, header.IPv6MinimumSize)
	case uint8(header.UDPProtocolNumber):
		l.received(from, to, payload, segment)
	case uint8(header.ICMPv6ProtocolNumber):
		l.icmp6(b, to)
	case header.IPv6FragmentHeader:
		l.fragment6(b, payload)
	case uint8(header.IPv6HopByHopOptionsExtHdrIdentifier), uint8(header.IPv6RoutingExtHdrIdentifier), uint8(header.IPv6DestinationOptionsExtHdrIdentifier):
		// As with the options of IPv4.
		l.refuse6(b, prohibited6)
	default:
		l.refuse6(b, protocolUnreachable6)
	}
}

// segment delivers a TCP segment: the packet b after a header of that size.
func (l *Link) segment(protocol tcpip.NetworkProtocolNumber, from, to netip.Addr, b []byte, size int) {
	h := header.TCP(b[size:])
	if len(h) < header.TCPMinimumSize {
		return
	}
	l.renewed(protocol, from, to, h)
	l.port.deliver(protocol, b, size+int(h.DataOffset()))
}

// fragment6 lets the stack put TCP and UDP together, and refuses the rest.
func (l *Link) fragment6(b, payload []byte) {
	if len(payload) < header.IPv6FragmentHeaderSize {
		return
	}
	h := header.IPv6Fragment(payload)
	switch h.TransportProtocol() {
	case header.TCPProtocolNumber, header.UDPProtocolNumber:
		l.port.deliver(header.IPv6ProtocolNumber, b, len(b))
	default:
		if h.FragmentOffset() == 0 {
			l.refuse6(b, prohibited6)
		}
	}
}

// unicast says whether packets may come from an address and go to it. What is left
// out has no single machine behind it, or never leaves a machine.
func unicast(a netip.Addr) bool {
	if !a.IsValid() || a.Is4In6() || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() {
		return false
	}
	if a.Is4() {
		return a.As4()[0] != 0 && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
	}
	return true
}

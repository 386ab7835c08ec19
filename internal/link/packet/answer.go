package packet

import (
	"net/netip"

	"github.com/cofferhq/coffer/internal/link"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// Reasons to refuse a packet: type and code of the ICMP message.
type reason struct{ kind, code uint8 }

var (
	hostUnreachable4     = reason{3, 1}
	protocolUnreachable4 = reason{3, 2}
	portUnreachable4     = reason{3, 3}
	prohibited4          = reason{3, 13}

	prohibited6          = reason{1, 1}
	hostUnreachable6     = reason{1, 3}
	portUnreachable6     = reason{1, 4}
	protocolUnreachable6 = reason{4, 1} // with a pointer to the byte that names it
)

// How much of a refused packet is quoted: as much as every machine must be able to
// receive.
const (
	maxQuote4 = 576 - header.IPv4MinimumSize - header.ICMPv4MinimumSize
	maxQuote6 = 1280 - header.IPv6MinimumSize - header.ICMPv6MinimumSize
)

// refuse4 tells the sender of a packet why it goes nowhere.
func (l *Link) refuse4(packet []byte, why reason) {
	quote := packet[:min(len(packet), maxQuote4)]
	icmp := make([]byte, header.ICMPv4MinimumSize, header.ICMPv4MinimumSize+len(quote))
	icmp[0], icmp[1] = why.kind, why.code
	l.send4(netip.AddrFrom4([4]byte(packet[16:20])), netip.AddrFrom4([4]byte(packet[12:16])), append(icmp, quote...))
}

// refuse6 does so for IPv6.
func (l *Link) refuse6(packet []byte, why reason) {
	quote := packet[:min(len(packet), maxQuote6)]
	icmp := make([]byte, header.ICMPv6MinimumSize, header.ICMPv6MinimumSize+len(quote))
	icmp[0], icmp[1] = why.kind, why.code
	if why == protocolUnreachable6 {
		icmp[7] = header.IPv6NextHeaderOffset
	}
	l.send6(netip.AddrFrom16([16]byte(packet[24:40])), netip.AddrFrom16([16]byte(packet[8:24])), append(icmp, quote...))
}

// icmp4 answers the ICMP packet b, which is not a fragment.
func (l *Link) icmp4(b []byte, to netip.Addr) {
	m := header.ICMPv4(b[header.IPv4MinimumSize:])
	if len(m) < header.ICMPv4MinimumSize {
		return
	}
	switch m.Type() {
	case header.ICMPv4Echo:
		if why := l.pinged(to, prohibited4, hostUnreachable4); why != (reason{}) {
			l.refuse4(b, why)
			return
		}
		reply := append([]byte(nil), m...)
		reply[0], reply[1] = uint8(header.ICMPv4EchoReply), 0
		l.send4(to, netip.AddrFrom4([4]byte(b[12:16])), reply)
	case header.ICMPv4EchoReply, header.ICMPv4DstUnreachable, header.ICMPv4SrcQuench, header.ICMPv4Redirect,
		header.ICMPv4TimeExceeded, header.ICMPv4ParamProblem, header.ICMPv4TimestampReply, header.ICMPv4InfoReply:
		// To answer answers would never end.
	default:
		l.refuse4(b, prohibited4)
	}
}

// icmp6 answers the ICMPv6 packet b.
func (l *Link) icmp6(b []byte, to netip.Addr) {
	m := header.ICMPv6(b[header.IPv6MinimumSize:])
	if len(m) < header.ICMPv6MinimumSize || m[0] < 128 { // an error message
		return
	}
	switch m.Type() {
	case header.ICMPv6EchoRequest:
		if why := l.pinged(to, prohibited6, hostUnreachable6); why != (reason{}) {
			l.refuse6(b, why)
			return
		}
		reply := append([]byte(nil), m...)
		reply[0], reply[1] = uint8(header.ICMPv6EchoReply), 0
		l.send6(to, netip.AddrFrom16([16]byte(b[8:24])), reply)
	case header.ICMPv6EchoReply, header.ICMPv6RouterSolicit, header.ICMPv6RouterAdvert,
		header.ICMPv6NeighborAdvert, header.ICMPv6RedirectMsg:
	default:
		l.refuse6(b, prohibited6)
	}
}

// pinged says why an address does not answer, the zero reason if it does.
func (l *Link) pinged(a netip.Addr, outside, unassigned reason) reason {
	switch {
	case !link.Synthetic4.Contains(a) && !link.Synthetic6.Contains(a):
		return outside
	case link.Reserved4.Contains(a) || link.Reserved6.Contains(a):
		switch a {
		case link.Resolver4, link.Resolver6, link.Host4, link.Host6, link.About4, link.About6:
			return reason{}
		}
		return unassigned
	}
	return reason{}
}

// neighbour answers neighbour solicitations: every address is here, but the machine's
// own. It says whether the message was one.
func (l *Link) neighbour(h header.IPv6, payload []byte) bool {
	const solicitation = header.ICMPv6NeighborSolicitMinimumSize
	if len(payload) < solicitation || header.ICMPv6(payload).Type() != header.ICMPv6NeighborSolicit || h.HopLimit() != header.NDPHopLimit {
		return false
	}
	from := netip.AddrFrom16([16]byte(h[8:24]))
	target := netip.AddrFrom16([16]byte(payload[8:24]))
	// A sender without address wants to know whether its own is taken.
	if !unicast(from) || !unicast(target) || target == link.Own6 || target == from {
		return true
	}
	m := make([]byte, solicitation, solicitation+8)
	m[0] = uint8(header.ICMPv6NeighborAdvert)
	m[4] = 0x60 // solicited; overrides what was known
	copy(m[8:], payload[8:24])
	m = append(m, 2, 1) // option: link-layer address, of 8 bytes in all
	l.send6(target, from, append(m, ownMAC[:]...))
	return true
}

// arp answers requests, likewise.
func (l *Link) arp(b []byte) {
	h := header.ARP(b)
	if len(h) < header.ARPSize || !h.IsValid() || h.Op() != header.ARPRequest {
		return
	}
	sender, target := netip.AddrFrom4([4]byte(h.ProtocolAddressSender())), netip.AddrFrom4([4]byte(h.ProtocolAddressTarget()))
	if !unicast(sender) || !unicast(target) || target == link.Own4 || target == sender {
		return
	}
	frame := make([]byte, ethernetSize+header.ARPSize)
	r := header.ARP(frame[ethernetSize:])
	r.SetIPv4OverEthernet()
	r.SetOp(header.ARPReply)
	copy(r.HardwareAddressSender(), ownMAC[:])
	copy(r.ProtocolAddressSender(), h.ProtocolAddressTarget())
	copy(r.HardwareAddressTarget(), h.HardwareAddressSender())
	copy(r.ProtocolAddressTarget(), h.ProtocolAddressSender())
	l.port.answer(frame, header.ARPProtocolNumber)
}

// send4 sends an ICMP message, whose checksum is still empty or an old one.
func (l *Link) send4(from, to netip.Addr, icmp []byte) {
	header.ICMPv4(icmp).SetChecksum(0)
	header.ICMPv4(icmp).SetChecksum(^checksum.Checksum(icmp, 0))
	frame := append(make([]byte, ethernetSize), headed4(header.ICMPv4ProtocolNumber, from, to, icmp)...)
	l.port.answer(frame, header.IPv4ProtocolNumber)
}

func (l *Link) send6(from, to netip.Addr, icmp []byte) {
	header.ICMPv6(icmp).SetChecksum(0)
	sum := header.PseudoHeaderChecksum(header.ICMPv6ProtocolNumber, tcpip.AddrFrom16(from.As16()), tcpip.AddrFrom16(to.As16()), uint16(len(icmp)))
	header.ICMPv6(icmp).SetChecksum(^checksum.Checksum(icmp, sum))
	frame := append(make([]byte, ethernetSize), headed6(header.ICMPv6ProtocolNumber, from, to, icmp)...)
	l.port.answer(frame, header.IPv6ProtocolNumber)
}

// headed4 puts an IPv4 header before a payload.
func headed4(protocol tcpip.TransportProtocolNumber, from, to netip.Addr, payload []byte) []byte {
	b := make([]byte, header.IPv4MinimumSize, header.IPv4MinimumSize+len(payload))
	h := header.IPv4(b)
	h.Encode(&header.IPv4Fields{
		TotalLength: uint16(cap(b)),
		TTL:         64,
		Protocol:    uint8(protocol),
		SrcAddr:     tcpip.AddrFrom4(from.As4()),
		DstAddr:     tcpip.AddrFrom4(to.As4()),
	})
	h.SetChecksum(^h.CalculateChecksum())
	return append(b, payload...)
}

// headed6 puts an IPv6 header before a payload. Neighbours look at the hop limit: it
// shows that no router was passed.
func headed6(protocol tcpip.TransportProtocolNumber, from, to netip.Addr, payload []byte) []byte {
	b := make([]byte, header.IPv6MinimumSize, header.IPv6MinimumSize+len(payload))
	header.IPv6(b).Encode(&header.IPv6Fields{
		PayloadLength:     uint16(len(payload)),
		TransportProtocol: protocol,
		HopLimit:          header.NDPHopLimit,
		SrcAddr:           tcpip.AddrFrom16(from.As16()),
		DstAddr:           tcpip.AddrFrom16(to.As16()),
	})
	return append(b, payload...)
}

package link

import (
	"fmt"
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// Packets for the machine: whole, in the name of whatever address a program asked.

func address(a netip.Addr) tcpip.Address { return tcpip.AddrFromSlice(a.AsSlice()) }

// packet puts an IP header before a payload.
func packet(from, to netip.Addr, protocol tcpip.TransportProtocolNumber, payload []byte) ([]byte, error) {
	const hops = 64
	size := header.IPv6MinimumSize
	if to.Is4() {
		size = header.IPv4MinimumSize
	}
	if size+len(payload) > 1<<16-1 {
		return nil, fmt.Errorf("a payload of %d bytes does not fit into a packet", len(payload))
	}
	b := make([]byte, size, size+len(payload))
	if to.Is6() {
		header.IPv6(b).Encode(&header.IPv6Fields{
			PayloadLength: uint16(len(payload)), TransportProtocol: protocol, HopLimit: hops, SrcAddr: address(from), DstAddr: address(to),
		})
		return append(b, payload...), nil
	}
	h := header.IPv4(b)
	h.Encode(&header.IPv4Fields{
		TotalLength: uint16(size + len(payload)), TTL: hops, Protocol: uint8(protocol), SrcAddr: address(from), DstAddr: address(to),
	})
	h.SetChecksum(^h.CalculateChecksum())
	return append(b, payload...), nil
}

// udp is a datagram with its header.
func udp(b []byte, from, to netip.AddrPort) []byte {
	h := make(header.UDP, header.UDPMinimumSize, header.UDPMinimumSize+len(b))
	length := uint16(cap(h))
	h.Encode(&header.UDPFields{SrcPort: from.Port(), DstPort: to.Port(), Length: length})
	sum := header.PseudoHeaderChecksum(header.UDPProtocolNumber, address(from.Addr()), address(to.Addr()), length)
	sum = ^checksum.Checksum(h, checksum.Checksum(b, sum))
	if sum == 0 {
		sum = 0xffff // zero says that there is none
	}
	h.SetChecksum(sum)
	return append(h, b...)
}

// unreachable is the ICMP message that answers a datagram: nobody listens at that port. Kernels look
// at the headers that it quotes, which can be made up.
func unreachable(from, to netip.AddrPort) (tcpip.TransportProtocolNumber, []byte) {
	sent, _ := packet(from.Addr(), to.Addr(), header.UDPProtocolNumber, udp(nil, from, to))
	return refusal(from.Addr(), to.Addr(), sent, header.ICMPv4PortUnreachable, header.ICMPv6PortUnreachable)
}

// echoed is the answer to a ping.
func echoed(from, to netip.Addr, ping []byte) []byte {
	if from.Is4() {
		h := header.ICMPv4(ping)
		h.SetType(header.ICMPv4EchoReply)
		h.SetChecksum(0)
		h.SetChecksum(^checksum.Checksum(ping, 0))
		return ping
	}
	h := header.ICMPv6(ping)
	h.SetType(header.ICMPv6EchoReply)
	h.SetChecksum(0)
	h.SetChecksum(header.ICMPv6Checksum(header.ICMPv6ChecksumParams{Header: h, Src: address(to), Dst: address(from)}))
	return ping
}

// refusal is the ICMP message that answers a packet: why it goes nowhere.
func refusal(from, to netip.Addr, sent []byte, code4 header.ICMPv4Code, code6 header.ICMPv6Code) (tcpip.TransportProtocolNumber, []byte) {
	b := append(make([]byte, header.ICMPv4MinimumSize), sent...)
	if from.Is4() {
		h := header.ICMPv4(b)
		h.SetType(header.ICMPv4DstUnreachable)
		h.SetCode(code4)
		h.SetChecksum(^checksum.Checksum(b, 0))
		return header.ICMPv4ProtocolNumber, b
	}
	h := header.ICMPv6(b)
	h.SetType(header.ICMPv6DstUnreachable)
	h.SetCode(code6)
	h.SetChecksum(header.ICMPv6Checksum(header.ICMPv6ChecksumParams{Header: h, Src: address(to), Dst: address(from)}))
	return header.ICMPv6ProtocolNumber, b
}

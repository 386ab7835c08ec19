package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Protocol numbers of IP.
const (
	protocolICMP   = 1
	protocolUDP    = 17
	protocolICMPv6 = 58
)

// packet puts an IP header before a payload.
func packet(from, to netip.Addr, protocol byte, payload []byte) ([]byte, error) {
	h := header(from, to, protocol, len(payload))
	if len(h)+len(payload) > 1<<16-1 {
		return nil, fmt.Errorf("a payload of %d bytes does not fit into a packet", len(payload))
	}
	return append(h, payload...), nil
}

func header(from, to netip.Addr, protocol byte, length int) []byte {
	const hops = 64
	if from.Is4() {
		h := make([]byte, 20)
		h[0], h[8], h[9] = 4<<4|5, hops, protocol
		binary.BigEndian.PutUint16(h[2:], uint16(20+length))
		copy(h[12:], from.AsSlice())
		copy(h[16:], to.AsSlice())
		binary.BigEndian.PutUint16(h[10:], finish(sum(0, h)))
		return h
	}
	h := make([]byte, 40)
	h[0], h[6], h[7] = 6<<4, protocol, hops
	binary.BigEndian.PutUint16(h[4:], uint16(length))
	copy(h[8:], from.AsSlice())
	copy(h[24:], to.AsSlice())
	return h
}

// udp is a datagram with its header.
func udp(b []byte, from, to netip.AddrPort) []byte {
	d := make([]byte, 8, 8+len(b))
	binary.BigEndian.PutUint16(d[0:], from.Port())
	binary.BigEndian.PutUint16(d[2:], to.Port())
	binary.BigEndian.PutUint16(d[4:], uint16(8+len(b)))
	d = append(d, b...)
	check := finish(sum(pseudo(from.Addr(), to.Addr(), protocolUDP, len(d)), d))
	if check == 0 {
		check = 0xffff // zero says that there is none
	}
	binary.BigEndian.PutUint16(d[6:], check)
	return d
}

// unreachable is the ICMP message that answers a datagram from from to to: nobody
// listens at that port. It carries the headers of what it answers.
func unreachable(from, to netip.AddrPort) (protocol byte, message []byte) {
	sent := header(from.Addr(), to.Addr(), protocolUDP, 8)
	sent = binary.BigEndian.AppendUint16(sent, from.Port())
	sent = binary.BigEndian.AppendUint16(sent, to.Port())
	sent = binary.BigEndian.AppendUint16(sent, 8)
	sent = append(sent, 0, 0)
	if from.Addr().Is4() {
		message = append([]byte{3, 3, 0, 0, 0, 0, 0, 0}, sent...)
		binary.BigEndian.PutUint16(message[2:], finish(sum(0, message)))
		return protocolICMP, message
	}
	message = append([]byte{1, 4, 0, 0, 0, 0, 0, 0}, sent...)
	initial := pseudo(to.Addr(), from.Addr(), protocolICMPv6, len(message))
	binary.BigEndian.PutUint16(message[2:], finish(sum(initial, message)))
	return protocolICMPv6, message
}

// pseudo is the checksum of the header that is not sent.
func pseudo(from, to netip.Addr, protocol byte, length int) uint32 {
	s := sum(uint32(protocol)+uint32(length), from.AsSlice())
	return sum(s, to.AsSlice())
}

// sum adds up 16-bit words, as the checksums of IP want it.
func sum(s uint32, b []byte) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		s += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		s += uint32(b[0]) << 8
	}
	return s
}

func finish(s uint32) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return ^uint16(s)
}

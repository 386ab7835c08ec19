package packet

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/cofferhq/coffer/internal/link"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// A bench is a wire whose other end is in the test.
type bench struct {
	out    chan []byte
	pongs  atomic.Int64 // answers to echoTo
	closed chan struct{}
}

func (b *bench) receive(func([]byte, int)) { <-b.closed }
func (b *bench) offloads() bool            { return false }
func (b *bench) close()                    { close(b.closed) }

func (b *bench) send(parts [][]byte, _ offload) bool {
	f := bytes.Join(parts, nil)
	if bytes.HasSuffix(f, []byte("\x00\x01hello")) {
		b.pongs.Add(1)
	}
	select {
	case b.out <- f:
		return true
	default:
		return false
	}
}

// benchLink is a link whose frames are given to its sort, and taken from the bench.
func benchLink(t testing.TB) (*Link, *bench) {
	t.Helper()
	b := &bench{out: make(chan []byte, 1024), closed: make(chan struct{})}
	l, err := open(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, b
}

// answer is what comes back for a frame at once, nil if nothing does.
func (b *bench) answer() []byte {
	select {
	case f := <-b.out:
		return f
	default:
		return nil
	}
}

var (
	outside4  = netip.MustParseAddr("192.0.2.7")
	outside6  = netip.MustParseAddr("2001:db8::7")
	assigned4 = netip.MustParseAddr("198.19.1.1")
	assigned6 = netip.MustParseAddr("fd63:6f66:6665:7210::1")
)

func frameOf(protocol tcpip.NetworkProtocolNumber, body []byte) []byte {
	f := append(make([]byte, ethernetSize), body...)
	copy(f, ownMAC[:])
	copy(f[6:], machineMAC[:])
	binary.BigEndian.PutUint16(f[12:], uint16(protocol))
	return f
}

// packetTo is a frame with a packet from the machine.
func packetTo(to netip.Addr, protocol int, payload []byte) []byte {
	if to.Is4() {
		return frameOf(header.IPv4ProtocolNumber, headed4(tcpip.TransportProtocolNumber(protocol), link.Own4, to, payload))
	}
	return frameOf(header.IPv6ProtocolNumber, headed6(tcpip.TransportProtocolNumber(protocol), link.Own6, to, payload))
}

func echoTo(to netip.Addr) []byte {
	if to.Is4() {
		return packetTo(to, 1, []byte("\x08\x00\x00\x00\x12\x34\x00\x01hello"))
	}
	return packetTo(to, 58, []byte("\x80\x00\x00\x00\x12\x34\x00\x01hello"))
}

// edit changes bytes of an IP packet in a frame.
func edit(frame []byte, offset int, with ...byte) []byte {
	copy(frame[ethernetSize+offset:], with)
	return frame
}

// checked is the ICMP message in a frame that is to be from and to these addresses,
// with all of its checksums right.
func checked(t *testing.T, frame []byte, from, to netip.Addr) []byte {
	t.Helper()
	if len(frame) < ethernetSize+20 || mac(frame[:6]) != machineMAC || mac(frame[6:12]) != ownMAC {
		t.Fatalf("bad frame % x", frame)
	}
	b := frame[ethernetSize:]
	if from.Is4() {
		h := header.IPv4(b)
		if !h.IsValid(len(b)) || !h.IsChecksumValid() || addrOf(h.SourceAddress()) != from || addrOf(h.DestinationAddress()) != to {
			t.Fatalf("bad IPv4 header % x", b)
		}
		if checksum.Checksum(h.Payload(), 0) != 0xffff {
			t.Errorf("bad checksum of ICMP % x", b)
		}
		return h.Payload()
	}
	h := header.IPv6(b)
	if !h.IsValid(len(b)) || addrOf(h.SourceAddress()) != from || addrOf(h.DestinationAddress()) != to {
		t.Fatalf("bad IPv6 header % x", b)
	}
	sum := header.PseudoHeaderChecksum(header.ICMPv6ProtocolNumber, h.SourceAddress(), h.DestinationAddress(), h.PayloadLength())
	if checksum.Checksum(h.Payload(), sum) != 0xffff {
		t.Errorf("bad checksum of ICMP % x", b)
	}
	return h.Payload()
}

func TestSort(t *testing.T) {
	l, b := benchLink(t)
	reply4, reply6 := reason{0, 0}, reason{129, 0}
	icmp := func(kind byte) []byte { return append([]byte{kind}, make([]byte, 30)...) }
	for _, c := range []struct {
		name  string
		frame []byte
		to    netip.Addr
		want  reason
		none  bool
	}{
		{"ping of the host", echoTo(link.Host4), link.Host4, reply4, false},
		{"ping of the host, IPv6", echoTo(link.Host6), link.Host6, reply6, false},
		{"ping of the resolver", echoTo(link.Resolver4), link.Resolver4, reply4, false},
		{"ping of a name", echoTo(assigned4), assigned4, reply4, false},
		{"ping of a name, IPv6", echoTo(assigned6), assigned6, reply6, false},
		{"ping of a reserved address", echoTo(netip.MustParseAddr("198.18.0.77")), netip.MustParseAddr("198.18.0.77"), hostUnreachable4, false},
		{"ping outside", echoTo(outside4), outside4, prohibited4, false},
		{"ping outside, IPv6", echoTo(outside6), outside6, prohibited6, false},
		{"ping in fragments", edit(echoTo(link.Host4), 6, 0x20, 0), link.Host4, prohibited4, false},
		{"next fragment of a ping", edit(echoTo(link.Host4), 6, 0, 9), link.Host4, reason{}, true},
		{"ping in fragments, IPv6", packetTo(link.Host6, 44, append([]byte{58, 0, 0, 1, 0, 0, 0, 1}, make([]byte, 16)...)), link.Host6, prohibited6, false},
		{"next fragment of a ping, IPv6", packetTo(link.Host6, 44, append([]byte{58, 0, 0, 8, 0, 0, 0, 1}, make([]byte, 16)...)), link.Host6, reason{}, true},
		{"ICMP timestamp", packetTo(link.Host4, 1, icmp(13)), link.Host4, prohibited4, false},
		{"ICMP error", packetTo(link.Host4, 1, icmp(3)), link.Host4, reason{}, true},
		{"ICMP redirect", packetTo(link.Host4, 1, icmp(5)), link.Host4, reason{}, true},
		{"ICMPv6 error", packetTo(link.Host6, 58, icmp(2)), link.Host6, reason{}, true},
		{"ICMPv6 router solicitation", packetTo(link.Host6, 58, icmp(133)), link.Host6, reason{}, true},
		{"ICMPv6 node information", packetTo(link.Host6, 58, icmp(139)), link.Host6, prohibited6, false},
		{"SCTP", packetTo(outside4, 132, make([]byte, 20)), outside4, protocolUnreachable4, false},
		{"SCTP, IPv6", packetTo(outside6, 132, make([]byte, 20)), outside6, protocolUnreachable6, false},
		{"no next header, IPv6", packetTo(outside6, 59, nil), outside6, protocolUnreachable6, false},
		{"fragment of SCTP", edit(packetTo(outside4, 132, make([]byte, 20)), 6, 0, 9), outside4, reason{}, true},
		{"hop-by-hop options", packetTo(outside6, 0, []byte{6, 0, 1, 4, 0, 0, 0, 0}), outside6, prohibited6, false},
		{"routing header", packetTo(outside6, 43, []byte{6, 0, 0, 0, 0, 0, 0, 0}), outside6, prohibited6, false},
		{"IPv4 options", edit(packetTo(outside4, 6, make([]byte, 40)), 0, 0x46), outside4, prohibited4, false},
		{"multicast", packetTo(netip.MustParseAddr("224.0.0.251"), 132, make([]byte, 20)), outside4, reason{}, true},
		{"multicast, IPv6", packetTo(netip.MustParseAddr("ff02::fb"), 132, make([]byte, 20)), outside6, reason{}, true},
		{"broadcast", packetTo(netip.MustParseAddr("255.255.255.255"), 132, make([]byte, 20)), outside4, reason{}, true},
		{"loopback", packetTo(netip.MustParseAddr("127.0.0.1"), 132, make([]byte, 20)), outside4, reason{}, true},
		{"mapped", packetTo(netip.MustParseAddr("::ffff:192.0.2.7"), 132, make([]byte, 20)), outside6, reason{}, true},
		{"from nowhere", edit(packetTo(outside4, 132, make([]byte, 20)), 12, 0, 0, 0, 0), outside4, reason{}, true},
		{"from a group", edit(packetTo(outside4, 132, make([]byte, 20)), 12, 224), outside4, reason{}, true},
		{"longer than it is", edit(packetTo(outside4, 132, make([]byte, 20)), 2, 0, 200), outside4, reason{}, true},
		{"shorter than its header", edit(packetTo(outside4, 132, make([]byte, 20)), 2, 0, 10), outside4, reason{}, true},
		{"other version", edit(packetTo(outside4, 132, make([]byte, 20)), 0, 0x65), outside4, reason{}, true},
		{"padded", append(echoTo(link.Host4), 0, 0, 0), link.Host4, reply4, false},
		{"VLAN", frameOf(0x8100, make([]byte, 40)), outside4, reason{}, true},
		{"empty", nil, outside4, reason{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l.sort(c.frame, 0)
			got := b.answer()
			if c.none {
				if got != nil {
					t.Fatalf("answered % x", got)
				}
				return
			}
			own := link.Own4
			if c.to.Is6() {
				own = link.Own6
			}
			m := checked(t, got, c.to, own)
			if (reason{m[0], m[1]}) != c.want {
				t.Fatalf("got ICMP %d/%d, want %d/%d", m[0], m[1], c.want.kind, c.want.code)
			}
			sent := c.frame[ethernetSize:]
			if c.want == reply4 || c.want == reply6 {
				if !bytes.HasSuffix(m, []byte("\x12\x34\x00\x01hello")) || len(m) != 13 {
					t.Errorf("the reply % x is not to the request", m)
				}
			} else if !bytes.Equal(m[8:], sent) {
				t.Errorf("quoted % x, want % x", m[8:], sent)
			}
			if b.answer() != nil {
				t.Error("more than one answer")
			}
		})
	}
}

func TestNeighbours(t *testing.T) {
	l, b := benchLink(t)
	for _, c := range []struct {
		name           string
		sender, target netip.Addr
		want           bool
	}{
		{"any address", link.Own4, outside4, true},
		{"the machine's", outside4, link.Own4, false},
		{"announcement", assigned4, assigned4, false},
		{"probe", netip.IPv4Unspecified(), outside4, false},
		{"any address, IPv6", link.Own6, outside6, true},
		{"the machine's, IPv6", outside6, link.Own6, false},
		{"probe, IPv6", netip.IPv6Unspecified(), outside6, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l.sort(question(c.sender, c.target), 0)
			got := b.answer()
			if !c.want {
				if got != nil {
					t.Fatalf("answered % x", got)
				}
				return
			}
			if c.target.Is6() {
				m := checked(t, got, c.target, c.sender)
				if m[0] != 136 || !bytes.Equal(m[8:24], c.target.AsSlice()) || !bytes.Equal(m[26:], ownMAC[:]) {
					t.Errorf("bad advertisement % x", m)
				}
				return
			}
			h := header.ARP(got[ethernetSize:])
			if !h.IsValid() || h.Op() != header.ARPReply || !bytes.Equal(h.HardwareAddressSender(), ownMAC[:]) ||
				!bytes.Equal(h.ProtocolAddressSender(), c.target.AsSlice()) || !bytes.Equal(h.ProtocolAddressTarget(), c.sender.AsSlice()) {
				t.Errorf("bad reply % x", h)
			}
		})
	}
}

// question is a frame that asks for the Ethernet address of target.
func question(sender, target netip.Addr) []byte {
	if target.Is4() {
		h := make(header.ARP, header.ARPSize)
		h.SetIPv4OverEthernet()
		h.SetOp(header.ARPRequest)
		copy(h.HardwareAddressSender(), machineMAC[:])
		copy(h.ProtocolAddressSender(), sender.AsSlice())
		copy(h.ProtocolAddressTarget(), target.AsSlice())
		return frameOf(header.ARPProtocolNumber, h)
	}
	m := append([]byte{135, 0, 0, 0, 0, 0, 0, 0}, target.AsSlice()...)
	group := netip.MustParseAddr("ff02::1:ff00:7")
	return frameOf(header.IPv6ProtocolNumber, headed6(header.ICMPv6ProtocolNumber, sender, group, m))
}

func TestLearnsEthernetAddress(t *testing.T) {
	l, b := benchLink(t)
	other := mac{2, 1, 1, 1, 1, 1}
	f := echoTo(link.Host4)
	copy(f[6:], other[:])
	l.sort(f, 0)
	if got := b.answer(); got == nil || mac(got[:6]) != other {
		t.Errorf("answered to % x, want %x", got, other)
	}
	copy(f[6:], []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}) // nobody's
	l.sort(f, 0)
	if got := b.answer(); got == nil || mac(got[:6]) != other {
		t.Errorf("answered to % x, want %x", got, other)
	}
}

func TestDatagramQueueIsBounded(t *testing.T) {
	l, _ := benchLink(t)
	udp := make(header.UDP, 60000)
	udp.Encode(&header.UDPFields{SrcPort: 1, DstPort: 2, Length: uint16(len(udp))})
	large := packetTo(outside4, 17, udp)
	for range 1000 {
		l.sort(large, 0)
	}
	if q := l.queued.Load(); q > maxDatagramBytes || q < maxDatagramBytes/2 {
		t.Errorf("%d bytes are queued, want up to %d", q, maxDatagramBytes)
	}
	for range len(l.datagrams) {
		l.ReadDatagram(nil)
	}
	if q := l.queued.Load(); q != 0 {
		t.Errorf("%d bytes are counted in an empty queue", q)
	}
	small := header.UDP(make([]byte, 8))
	small.Encode(&header.UDPFields{SrcPort: 1, DstPort: 2, Length: 8})
	for range 1000 {
		l.sort(packetTo(outside6, 17, small), 0)
	}
	if n := len(l.datagrams); n != maxDatagrams {
		t.Errorf("%d datagrams are queued, want %d", n, maxDatagrams)
	}
}

func TestWriteDatagramRefusesStrangeAddresses(t *testing.T) {
	l, b := benchLink(t)
	good := netip.AddrPortFrom(link.Own4, 5)
	for _, a := range []string{"0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "::1", "ff02::1", "::ffff:10.0.0.1", "2001:db8::1"} {
		p := netip.AddrPortFrom(netip.MustParseAddr(a), 53)
		if l.WriteDatagram(nil, p, good) == nil || l.RefuseDatagram(good, p) == nil {
			t.Errorf("%s was taken", p)
		}
	}
	if l.WriteDatagram(nil, netip.AddrPort{}, good) == nil || l.RefuseDatagram(netip.AddrPort{}, good) == nil {
		t.Error("no address was taken")
	}
	if l.WriteDatagram(make([]byte, 65508), good, good) == nil {
		t.Error("a datagram that is too large was taken")
	}
	if f := b.answer(); f != nil {
		t.Errorf("sent % x", f)
	}
}

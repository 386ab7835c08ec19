package linktest

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"github.com/cofferhq/coffer/internal/link"
	"golang.org/x/sys/unix"
)

// Ping sends an echo request from inside, and returns nil when it is answered, or the
// error by which it is refused.
func (m Machine) Ping(t testing.TB, to netip.Addr) error {
	t.Helper()
	protocol, request, reply := unix.IPPROTO_ICMP, byte(8), byte(0)
	if to.Is6() {
		protocol, request, reply = unix.IPPROTO_ICMPV6, 128, 129
	}
	c := m.connected(t, netip.AddrPortFrom(to, 0), unix.SOCK_RAW, protocol)
	defer c.Close()
	hear(t, c, to)
	b := []byte{request, 0, 0, 0, 0x12, 0x34, 0, 1, 'h', 'e', 'l', 'l', 'o'}
	if to.Is4() { // of IPv6 the kernel makes the checksum
		binary.BigEndian.PutUint16(b[2:], sum(b))
	}
	if _, err := c.Write(b); err != nil {
		return err
	}
	for {
		got := make([]byte, 1500)
		n, err := c.Read(got)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("ping of %s: no answer of any kind", to)
		}
		if err != nil {
			return err
		}
		got = got[:n]
		if to.Is4() && len(got) > 20 && got[0]>>4 == 4 { // the kernel's copy has the IP header
			got = got[4*(got[0]&15):]
		}
		// A raw socket hears all of its protocol, its own request too where that
		// is delivered in the same namespace.
		if len(got) == len(b) && got[0] == reply && string(got[4:]) == string(b[4:]) {
			return nil
		}
	}
}

func testEcho(t *testing.T, m Machine) {
	for _, to := range []netip.Addr{link.Host4, link.Host6, link.Resolver4, link.Resolver6} {
		if err := m.Ping(t, to); err != nil {
			t.Errorf("ping of %s: %v, want an answer", to, err)
		}
	}
	for _, to := range families {
		if err := m.Ping(t, to.Addr()); err == nil {
			t.Errorf("ping of %s was answered, want a refusal", to.Addr())
		}
	}
}

// testOtherProtocols: neither TCP, UDP nor ICMP goes anywhere, and programs are told.
func testOtherProtocols(t *testing.T, m Machine) {
	each(t, func(t *testing.T, to netip.AddrPort) {
		for _, protocol := range []int{unix.IPPROTO_SCTP, unix.IPPROTO_GRE, unix.IPPROTO_ESP, 253} {
			c := m.connected(t, netip.AddrPortFrom(to.Addr(), 0), unix.SOCK_RAW, protocol)
			hear(t, c, to.Addr())
			_, err := c.Write(make([]byte, 32))
			if err == nil {
				_, err = c.Read(make([]byte, 100))
			}
			if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("protocol %d: %v, want a refusal", protocol, err)
			}
		}
	})
}

// hear makes a socket report every ICMP message about it as an error.
func hear(t testing.TB, c net.Conn, to netip.Addr) {
	t.Helper()
	raw, err := c.(interface {
		SyscallConn() (syscall.RawConn, error)
	}).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	level, option := unix.SOL_IP, unix.IP_RECVERR
	if to.Is6() {
		level, option = unix.SOL_IPV6, unix.IPV6_RECVERR
	}
	raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, 1) })
	if err != nil {
		t.Fatal(err)
	}
}

// sum is the checksum of the internet protocols.
func sum(b []byte) uint16 {
	var s uint32
	for i, v := range b {
		if i%2 == 0 {
			s += uint32(v) << 8
		} else {
			s += uint32(v)
		}
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return ^uint16(s)
}

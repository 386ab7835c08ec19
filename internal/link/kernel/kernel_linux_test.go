package kernel

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/cofferhq/coffer/internal/link/linktest"
)

func TestMain(m *testing.M) {
	linktest.Main(m, map[string]linktest.Prepare{"kernel": Prepare})
}

func TestLink(t *testing.T) {
	for _, uid := range linktest.Users() {
		t.Run(fmt.Sprint("uid ", uid), func(t *testing.T) {
			linktest.Run(t, func(t *testing.T) linktest.Machine {
				inside := linktest.NewNamespace(t, uid, "kernel")
				l, err := Open(inside.Files)
				if err != nil {
					t.Fatal(err)
				}
				return linktest.Machine{Link: l, Inside: inside}
			})
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	if _, err := Open(nil); err == nil {
		t.Error("a link without sockets was opened")
	}
}

// The checksum of a whole packet, its own checksum included, comes out as zero.
func TestChecksums(t *testing.T) {
	for _, c := range []struct{ from, to string }{
		{"192.0.2.1:53", "198.18.0.2:40000"}, {"[2001:db8::1]:53", "[fd63:6f66:6665:7200::2]:40000"},
	} {
		from, to := netip.MustParseAddrPort(c.from), netip.MustParseAddrPort(c.to)
		for _, n := range []int{0, 1, 2, 1399, 65000} {
			d := udp(make([]byte, n), from, to)
			if got := finish(sum(pseudo(from.Addr(), to.Addr(), protocolUDP, len(d)), d)); got != 0 {
				t.Errorf("%d bytes from %s: a datagram's checksum is off by %d", n, c.from, got)
			}
		}
		protocol, m := unreachable(from, to)
		initial := uint32(0)
		if protocol == protocolICMPv6 {
			initial = pseudo(to.Addr(), from.Addr(), protocol, len(m))
		}
		if got := finish(sum(initial, m)); got != 0 {
			t.Errorf("from %s: a refusal's checksum is off by %d", c.from, got)
		}
	}
	if _, err := packet(netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.18.0.2"), protocolUDP, make([]byte, 65530)); err == nil {
		t.Error("a packet that is too long was made")
	}
}

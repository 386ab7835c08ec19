package linktest

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/link"
)

// A Machine is a link with what is at both ends of it.
type Machine struct {
	Link   link.Link
	Inside *Namespace
}

// Run tests a kind of link. Every case starts a machine of its own, which start
// removes with the test it is given.
func Run(t *testing.T, start func(t *testing.T) Machine) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Machine)
	}{
		{"TCP reaches any address and port", testAddresses},
		{"TCP flow is refused", testRefuse},
		{"TCP flow waits for its decision", testPending},
		{"TCP half-close from inside", testHalfCloseInside},
		{"TCP half-close from outside", testHalfCloseOutside},
		{"TCP close from outside", testCloseOutside},
		{"TCP reset from outside", testResetOutside},
		{"TCP reset from inside", testResetInside},
		{"TCP server speaks first", testServerFirst},
		{"TCP port is used again at once", testPortReuse},
		{"TCP deadlines and Close wake a reader", testDeadlines},
		{"TCP bulk up", testBulkUp},
		{"TCP bulk down", testBulkDown},
		{"TCP slow reader outside", testSlowOutside},
		{"TCP slow reader inside", testSlowInside},
		{"TCP many connections at once", testMany},
		{"UDP reaches any address and port", testDatagrams},
		{"UDP sizes", testDatagramSizes},
		{"UDP is cut to the buffer", testDatagramCut},
		{"UDP is refused", testRefuseDatagram},
		{"UDP from several destinations on one socket", testDatagramMany},
		{"ICMP echo is answered or refused", testEcho},
		{"other protocols are refused", testOtherProtocols},
		{"Close wakes everybody", testClose},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := start(t)
			t.Cleanup(func() { m.Link.Close() })
			c.test(t, m)
		})
	}
}

// Destinations that no machine has a route to but by its link: of documentation, of
// private networks, of the link's own. Nothing real is behind them, and the packets of
// these tests never leave the namespace.
var destinations = []netip.AddrPort{
	netip.MustParseAddrPort("192.0.2.7:443"),
	netip.MustParseAddrPort("203.0.113.200:1"),
	netip.MustParseAddrPort("10.1.2.3:65535"),
	netip.AddrPortFrom(link.Host4, 8080),
	netip.MustParseAddrPort("198.19.255.254:22"),
	netip.MustParseAddrPort("[2001:db8::7]:443"),
	netip.MustParseAddrPort("[2001:db8:ffff::1]:1"),
	netip.AddrPortFrom(link.About6, 80),
	netip.MustParseAddrPort("[fd63:6f66:6665:72ff::9]:65535"),
}

// One of each family, for tests that need no more.
var families = []netip.AddrPort{destinations[0], destinations[5]}

// each runs a test for both families.
func each(t *testing.T, test func(t *testing.T, to netip.AddrPort)) {
	for _, to := range families {
		name := "IPv4"
		if to.Addr().Is6() {
			name = "IPv6"
		}
		t.Run(name, func(t *testing.T) { test(t, to) })
	}
}

// flows passes on what a link accepts. It ends with the link.
func (m Machine) flows(t testing.TB) <-chan link.Flow {
	c := make(chan link.Flow)
	stop := make(chan struct{})
	var done sync.WaitGroup
	t.Cleanup(func() {
		close(stop)
		m.Link.Close()
		done.Wait()
	})
	done.Go(func() {
		for {
			f, err := m.Link.Accept()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Errorf("Accept: %v", err)
				}
				return
			}
			select {
			case c <- f:
			case <-stop:
				f.Refuse()
			}
		}
	})
	return c
}

// next is the next flow.
func next(t testing.TB, flows <-chan link.Flow) link.Flow {
	t.Helper()
	select {
	case f := <-flows:
		return f
	case <-time.After(patience):
		t.Fatal("no flow arrived")
		return nil
	}
}

// pair is a connection, seen from inside and outside.
func (m Machine) pair(t testing.TB, flows <-chan link.Flow, to netip.AddrPort) (inside *net.TCPConn, outside link.Conn) {
	t.Helper()
	type result struct {
		conn *net.TCPConn
		err  error
	}
	dialled := make(chan result, 1)
	go func() {
		c, err := m.Dial(to)
		dialled <- result{c, err}
	}()
	f := next(t, flows)
	outside, err := f.Accept()
	if err != nil {
		t.Fatalf("accept the flow to %s: %v", to, err)
	}
	outside.SetDeadline(time.Now().Add(patience))
	r := <-dialled
	if r.err != nil {
		t.Fatalf("connect to %s from inside: %v", to, r.err)
	}
	t.Cleanup(func() { r.conn.Close(); outside.Close() })
	return r.conn, outside
}

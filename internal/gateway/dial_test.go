package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/policy"
)

func mustPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func addrs(list ...string) (out []netip.Addr) {
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

// TestRebinding: an allowed name that resolves to a special address is refused, and
// nobody is dialled.
func TestRebinding(t *testing.T) {
	get := "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"
	for _, a := range []string{
		"127.0.0.1", "::1", "10.1.2.3", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::",
		"::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "fd00::1", "fe80::1%eth0", "224.0.0.1", "198.18.0.3",
		"255.255.255.255", "8.8.4.4",
	} {
		for _, rule := range []string{"allow example.com", "allow example.com http"} {
			r := newRig(t, rules(t, rule, "allow *", "allow 0.0.0.0/0"), func(c *Config, _ *limits) {
				c.Own = func(a netip.Addr) bool { return a == netip.MustParseAddr("8.8.4.4") }
			})
			r.world.name("example.com", addrs(a))
			r.serveAt(netip.AddrPortFrom(addrs(a)[0].Unmap(), 80), echo)
			c := r.connect("example.com", 80)
			io.WriteString(c, get)
			said, _ := outcome(c)
			if !strings.HasPrefix(said, "HTTP/1.1 403 ") {
				t.Errorf("%s: %q", a, said)
			}
			if d := r.world.dialled(); len(d) > 0 {
				t.Errorf("%s: dialled %v", a, d)
			}
			if d := r.g.Denials(); len(d) != 1 || !strings.HasPrefix(d[0].Allow, "coffer policy allow ") || strings.Contains(d[0].Allow, "example.com") {
				t.Errorf("%s: %+v", a, d)
			}
		}
	}
	// Control: the same when a rule names the address, and never looked up again.
	r := newRig(t, rules(t, "allow example.com", "allow 10.1.2.3"))
	r.world.name("example.com", addrs("10.1.2.3"))
	r.serveAt(mustPort("10.1.2.3:80"), script(ok))
	c := r.connect("example.com", 80)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
	if said, _ := outcome(c); said != ok {
		t.Errorf("%q", said)
	}
	if looked := r.world.lookedUp(); len(looked) != 1 || len(r.world.dialled()) != 1 {
		t.Errorf("looked up %v, dialled %v", looked, r.world.dialled())
	}
}

// TestMixedAddresses: of several addresses only those that may be are dialled.
func TestMixedAddresses(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com"))
	r.world.name("example.com", addrs("127.0.0.1", "2606:2800::1", "10.0.0.1", "93.184.215.14", "93.184.215.15"))
	r.serveAt(mustPort("93.184.215.15:1000"), echo)
	c := r.connect("example.com", 1000)
	io.WriteString(c, "\x00")
	c.CloseWrite()
	if said, _ := outcome(c); said != "\x00" {
		t.Errorf("%q", said)
	}
	// On a slow machine the next one may overtake one that is waited for.
	want := []netip.AddrPort{mustPort("93.184.215.14:1000"), mustPort("93.184.215.15:1000"), mustPort("[2606:2800::1]:1000")}
	d := r.world.dialled()
	for end := time.Now().Add(time.Minute); len(d) < len(want) && time.Now().Before(end); d = r.world.dialled() {
		time.Sleep(time.Millisecond)
	}
	if slices.SortFunc(d, netip.AddrPort.Compare); !slices.Equal(d, want) {
		t.Errorf("dialled %v", d)
	}
	if e := r.waitEvents("flow", 1)[0]; e.Addr != netip.MustParseAddr("93.184.215.15") {
		t.Errorf("%+v", e)
	}
}

// TestManyAddresses: all addresses of a name are vetted, and few are tried.
func TestManyAddresses(t *testing.T) {
	var many []netip.Addr
	for n := range 2 * maxCandidates {
		many = append(many, netip.AddrFrom4([4]byte{93, 184, 215, byte(n)}))
	}
	private := addrs("10.0.0.1")
	var bad []netip.Addr
	for range maxCandidates {
		bad = append(bad, private...)
	}
	set := rules(t, "allow example.com")
	q := policy.Query{Host: "example.com", Port: 80, Protocol: policy.HTTP}
	for what, test := range map[string]struct {
		addrs   []netip.Addr
		good    int
		refused bool
	}{
		"many":                     {many, maxCandidates, false},
		"the last one is refused":  {append(slices.Clone(many), private...), maxCandidates, true},
		"only the last one is not": {append(slices.Clone(bad), public), 1, true},
	} {
		g := build(newFakeLink(t), Config{
			Policy: set, Own: func(netip.Addr) bool { return false },
			Resolve: func(context.Context, string) ([]netip.Addr, error) { return test.addrs, nil },
		}, quick())
		good, bad, none := g.candidates(context.Background(), q, set.Decide(q))
		if len(good) != test.good || (bad != nil) != test.refused || none != nil {
			t.Errorf("%s: %v, %+v, %+v", what, good, bad, none)
		}
		g.Close()
	}
}

// TestRace: an address that does not answer holds up the next for a moment only, and
// a connection that comes too late is closed.
func TestRace(t *testing.T) {
	late := make(chan struct{})
	var closed atomic.Bool
	g := build(newFakeLink(t), Config{
		Policy: rules(t),
		Dial: func(ctx context.Context, _ string, to netip.AddrPort) (net.Conn, error) {
			a, b := net.Pipe()
			if to.Addr() == public {
				<-ctx.Done()
				return &noticeClose{a, &closed, late}, nil // in spite of being told to stop
			}
			go io.Copy(b, b)
			return a, nil
		},
	}, quick())
	c, a, err := g.race(context.Background(), "tcp", []netip.Addr{public, netip.MustParseAddr("93.184.215.15")}, 1)
	if err != nil || a != netip.MustParseAddr("93.184.215.15") {
		t.Fatalf("%v, %v", a, err)
	}
	c.Close()
	<-late
	if !closed.Load() {
		t.Error("the late connection was not closed")
	}
	g.Close()
}

type noticeClose struct {
	net.Conn
	closed *atomic.Bool
	done   chan struct{}
}

func (n *noticeClose) Close() error {
	n.closed.Store(true)
	close(n.done)
	return n.Conn.Close()
}

// TestDialTimeout: a server that does not answer is given up.
func TestDialTimeout(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com http"), func(c *Config, l *limits) {
		l.dial = 10 * time.Millisecond
		c.Dial = func(ctx context.Context, _ string, _ netip.AddrPort) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	r.world.name("example.com", []netip.Addr{public})
	c := r.connect("example.com", 80)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
	if said, _ := outcome(c); !strings.HasPrefix(said, "HTTP/1.1 502 ") || !strings.Contains(said, "timed out") {
		t.Errorf("%q", said)
	}
}

func TestInterleave(t *testing.T) {
	got := interleave(addrs("1.1.1.1", "1.1.1.2", "1.1.1.3", "2606::1", "2606::2"))
	if want := addrs("1.1.1.1", "2606::1", "1.1.1.2", "2606::2", "1.1.1.3"); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got := interleave(nil); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// TestLinkBreaks: a link that breaks is an error.
func TestLinkBreaks(t *testing.T) {
	g := build(&brokenLink{newFakeLink(t)}, Config{Policy: rules(t)}, quick())
	if err := g.Serve(); !errors.Is(err, syscall.EBADF) {
		t.Errorf("%v", err)
	}
	g.Close()
}

// brokenLink accepts nothing.
type brokenLink struct{ *fakeLink }

func (brokenLink) Accept() (link.Flow, error) { return nil, syscall.EBADF }

// TestDatagramsFail: when the link breaks for datagrams only, Serve says so.
func TestDatagramsFail(t *testing.T) {
	g := build(&deafLink{newFakeLink(t)}, Config{Policy: rules(t)}, quick())
	if err := g.Serve(); !errors.Is(err, syscall.EBADF) {
		t.Errorf("%v", err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

// deafLink takes no datagrams.
type deafLink struct{ *fakeLink }

func (deafLink) ReadDatagram([]byte) (n int, from, to netip.AddrPort, err error) {
	return 0, from, to, syscall.EBADF
}

// TestCloseEndsAll: Close ends flows in every state and waits for them.
func TestCloseEndsAll(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com", "allow web.com http", "ask asked.com", "allow stuck.com"), func(c *Config, _ *limits) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, n string, to netip.AddrPort) (net.Conn, error) {
			if to.Port() == 9 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return dial(ctx, n, to)
		}
	})
	r.serve("example.com", 1000, func(c *net.TCPConn) { io.WriteString(c, "x"); io.Copy(io.Discard, c) })
	r.serve("stuck.com", 9, echo)
	relayed := r.connect("example.com", 1000)
	io.ReadFull(relayed, make([]byte, 1))
	waiting := r.connect("web.com", 80)
	asked := r.connect("asked.com", 80)
	io.WriteString(asked, "GET / HTTP/1.1\r\nHost: asked.com\r\n\r\n")
	<-r.asked
	stuck := r.connect("stuck.com", 9)
	dns := r.connectTo(mustPort("198.18.0.1:53"))
	about := r.connectTo(mustPort("198.18.0.4:80"))
	r.g.Close()
	for n, c := range []*net.TCPConn{relayed, waiting, asked, stuck, dns, about} {
		if _, end := outcome(c); end != "reset" && end != "eof" {
			t.Errorf("%d: %s", n, end)
		}
	}
	if err := r.g.Close(); err != nil {
		t.Error(err)
	}
	if p := r.g.Pending(); len(p) != 0 {
		t.Errorf("%+v", p)
	}
}

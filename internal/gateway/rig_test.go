package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/policy"
)

// fakeLink is a link whose programs are the test itself. Its connections are real TCP
// on loopback, so that resets and half-closes are real.
type fakeLink struct {
	l         *net.TCPListener
	mu        sync.Mutex // one pair is made at a time
	flows     chan link.Flow
	datagrams chan packet
	replies   chan packet // to programs; refused ones have no bytes and ok false
	closed    chan struct{}
	once      sync.Once
}

type packet struct {
	b        []byte
	from, to netip.AddrPort
	refused  bool
}

func newFakeLink(t testing.TB) *fakeLink {
	l := listen(t)
	return &fakeLink{
		l: l, flows: make(chan link.Flow), datagrams: make(chan packet),
		replies: make(chan packet, 4096), closed: make(chan struct{}),
	}
}

func listen(t testing.TB) *net.TCPListener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener)
}

func (l *fakeLink) Accept() (link.Flow, error) {
	select {
	case f := <-l.flows:
		return f, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *fakeLink) ReadDatagram(b []byte) (int, netip.AddrPort, netip.AddrPort, error) {
	select {
	case p := <-l.datagrams:
		return copy(b, p.b), p.from, p.to, nil
	case <-l.closed:
		return 0, netip.AddrPort{}, netip.AddrPort{}, net.ErrClosed
	}
}

func (l *fakeLink) WriteDatagram(b []byte, from, to netip.AddrPort) error {
	l.replies <- packet{b: append([]byte(nil), b...), from: from, to: to}
	return nil
}

func (l *fakeLink) RefuseDatagram(from, to netip.AddrPort) error {
	l.replies <- packet{from: to, to: from, refused: true}
	return nil
}

func (l *fakeLink) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// open is a program that connects.
func (l *fakeLink) open(to netip.AddrPort) (*net.TCPConn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out, err := net.Dial("tcp", l.l.Addr().String())
	if err != nil {
		return nil, err
	}
	in, err := l.l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	select {
	case l.flows <- &fakeFlow{in, netip.AddrPortFrom(inside1.Addr(), out.LocalAddr().(*net.TCPAddr).AddrPort().Port()), to}:
	case <-l.closed:
		in.Close()
	}
	return out.(*net.TCPConn), nil
}

type fakeFlow struct {
	c        *net.TCPConn
	from, to netip.AddrPort
}

func (f *fakeFlow) Source() netip.AddrPort      { return f.from }
func (f *fakeFlow) Destination() netip.AddrPort { return f.to }
func (f *fakeFlow) Accept() (link.Conn, error)  { return tcpConn{f.c}, nil }
func (f *fakeFlow) Refuse()                     { reset(f.c) }

// tcpConn is a connection of a link.
type tcpConn struct{ *net.TCPConn }

func (c tcpConn) Reset() { reset(c.TCPConn) }

// world is the internet of a test: names, addresses, and what listens there.
type world struct {
	mu      sync.Mutex
	names   map[string][]netip.Addr
	servers map[netip.AddrPort]string // the loopback address that stands for it
	dials   []netip.AddrPort
	looked  []string
}

// name gives a name its addresses.
func (w *world) name(host string, at []netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names[host] = at
}

func (w *world) resolve(_ context.Context, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked = append(w.looked, host)
	if a, ok := w.names[host]; ok {
		return a, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (w *world) dial(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dials = append(w.dials, to)
	real, ok := w.servers[to]
	w.mu.Unlock()
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	return dial(ctx, network, netip.MustParseAddrPort(real))
}

func (w *world) lookedUp() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.looked...)
}

func (w *world) dialled() []netip.AddrPort {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]netip.AddrPort(nil), w.dials...)
}

// rig is a gateway with everything around it.
type rig struct {
	t     testing.TB
	link  *fakeLink
	world *world
	g     *Gateway
	done  chan error

	mu     sync.Mutex
	events []audit.Event
	told   []Denial
	missed []Denial
	asked  chan Request
	logged chan struct{} // a token for each event
}

// quick are limits under which tests need not wait, but for programs that say nothing.
func quick() limits {
	l := defaults()
	l.sniff, l.web = time.Minute, time.Minute // machines are slow, too
	l.tick = time.Hour
	return l
}

// silent is for programs that never say anything.
func silent(_ *Config, l *limits) {
	l.sniff, l.web = 20*time.Millisecond, 20*time.Millisecond
}

func newRig(t testing.TB, set *policy.Set, change ...func(*Config, *limits)) *rig {
	r := &rig{
		t: t, link: newFakeLink(t), done: make(chan error, 1), asked: make(chan Request, 100), logged: make(chan struct{}, 1<<16),
		world: &world{names: map[string][]netip.Addr{}, servers: map[netip.AddrPort]string{}},
	}
	c := Config{
		Policy: set, Resolve: r.world.resolve, Dial: r.world.dial,
		Own:   func(netip.Addr) bool { return false },
		Proxy: func(string, uint16) *url.URL { return nil },
		Audit: func(e audit.Event) {
			r.mu.Lock()
			r.events = append(r.events, e)
			r.mu.Unlock()
			select {
			case r.logged <- struct{}{}:
			default:
			}
		},
		Denied: func(d Denial) {
			r.mu.Lock()
			r.told = append(r.told, d)
			r.mu.Unlock()
		},
		Unreached: func(d Denial) {
			r.mu.Lock()
			r.missed = append(r.missed, d)
			r.mu.Unlock()
		},
		Asked: func(q Request) { r.asked <- q },
		About: About{Name: "tester", ID: "t1"},
	}
	l := quick()
	for _, f := range change {
		f(&c, &l)
	}
	r.g = build(r.link, c, l)
	go func() { r.done <- r.g.Serve() }()
	t.Cleanup(r.close)
	return r
}

func (r *rig) close() {
	if err := r.g.Close(); err != nil {
		r.t.Errorf("close: %v", err)
	}
	if err := <-r.done; err != nil {
		r.t.Errorf("serve: %v", err)
	}
	r.done <- nil
}

// rules compiles rules, each "allow|deny|ask TARGET [protocol [methods paths]]".
func rules(t testing.TB, lines ...string) *policy.Set {
	t.Helper()
	src := policy.Source{Default: "deny"}
	for _, line := range lines {
		var r policy.RuleSource
		for n, word := range strings.Fields(line) {
			key, value, _ := strings.Cut(word, "=")
			switch {
			case line == "default=ask" || line == "default=allow":
				src.Default = value
			case n == 0:
				r.Name = line
			case n == 1 && strings.HasPrefix(line, "allow"):
				r.Allow = []string{word}
			case n == 1 && strings.HasPrefix(line, "deny"):
				r.Deny = []string{word}
			case n == 1 && strings.HasPrefix(line, "ask"):
				r.Ask = []string{word}
			case key == "methods":
				r.Methods = strings.Split(value, ",")
			case key == "paths":
				r.Paths = strings.Split(value, ",")
			case word == "inspect":
				r.Inspect = true
			case word == "tls=pass":
				r.TLS = value
			case key == "up":
				r.MaxUpload = value
			case key == "down":
				r.MaxDownload = value
			default:
				r.Protocol = word
			}
		}
		if r.Name != "" {
			src.Rules = append(src.Rules, r)
		}
	}
	set, err := policy.Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// public are addresses that are nothing special. No packet goes there.
var public = netip.MustParseAddr("93.184.215.14")

// serve makes something listen at name:port in the world.
func (r *rig) serve(name string, port uint16, handle func(*net.TCPConn)) {
	r.t.Helper()
	r.world.mu.Lock()
	if r.world.names[name] == nil {
		r.world.names[name] = []netip.Addr{public}
	}
	addr := r.world.names[name][0]
	r.world.mu.Unlock()
	r.serveAt(netip.AddrPortFrom(addr, port), handle)
}

func (r *rig) serveAt(at netip.AddrPort, handle func(*net.TCPConn)) {
	r.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { l.Close() })
	r.world.mu.Lock()
	r.world.servers[at] = l.Addr().String()
	r.world.mu.Unlock()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				handle(c.(*net.TCPConn))
			}()
		}
	}()
}

// connect is a program that connects to a name, which it has looked up.
func (r *rig) connect(name string, port uint16) *net.TCPConn {
	r.t.Helper()
	v4, _ := r.g.table.Addresses(name)
	return r.connectTo(netip.AddrPortFrom(v4, port))
}

func (r *rig) connectTo(to netip.AddrPort) *net.TCPConn {
	r.t.Helper()
	c, err := r.link.open(to)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute)) // a hang is a failure
	return c
}

// open returns how many flows the gateway serves.
func (r *rig) open() int {
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	return len(r.g.flows)
}

// waitEvents waits for n events of a kind and returns them all.
func (r *rig) waitEvents(kind string, n int) []audit.Event {
	r.t.Helper()
	timeout := time.After(time.Minute)
	for {
		var list []audit.Event
		r.mu.Lock()
		for _, e := range r.events {
			if e.Kind == kind {
				list = append(list, e)
			}
		}
		r.mu.Unlock()
		if len(list) >= n {
			return list
		}
		select {
		case <-r.logged:
		case <-timeout:
			r.t.Fatalf("%d events of kind %s, want %d: %+v", len(list), kind, n, list)
		}
	}
}

// recorder is a server that keeps what it gets and says nothing.
type recorder struct {
	mu    sync.Mutex
	got   []byte
	conns int
	ended chan struct{} // if set, gets a token for each connection that has ended
}

func (s *recorder) handle(c *net.TCPConn) {
	s.mu.Lock()
	s.conns++
	s.mu.Unlock()
	b := make([]byte, 4096)
	for {
		n, err := c.Read(b)
		s.mu.Lock()
		s.got = append(s.got, b[:n]...)
		s.mu.Unlock()
		if err != nil {
			if s.ended != nil {
				s.ended <- struct{}{}
			}
			return
		}
	}
}

func (s *recorder) bytes() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.got)
}

func echo(c *net.TCPConn) { _, _ = io.Copy(c, c) }

// hangUp ends a program's or a server's connection with a reset.
func hangUp(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// outcome reads all and says how a connection ended: what was read, and "eof" or "reset".
func outcome(c net.Conn) (string, string) {
	b, err := io.ReadAll(c)
	switch {
	case err == nil:
		return string(b), "eof"
	case strings.Contains(err.Error(), "reset"):
		return string(b), "reset"
	}
	return string(b), fmt.Sprint(err)
}

// expiring is a policy with one rule that ends by itself.
func expiring(t testing.TB, host string, at time.Time) *policy.Set {
	t.Helper()
	set, err := policy.Compile(policy.Source{Default: "deny", Grants: true, Rules: []policy.RuleSource{{Allow: []string{host}, Expires: at}}})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

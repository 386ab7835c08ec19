// Package gateway is the far end of a sandbox's network.
//
// A program inside opens a connection. It comes out of a [link.Link] as a flow, with the
// address that the program meant. From there, one flow is a short story:
//
//  1. Whom did it mean? Names inside have synthetic addresses, so the address tells the
//     name that was asked for (package dns). An address that no name has is a
//     destination of its own, a bare address.
//  2. May it? [policy.Set] is asked what this destination allows: raw TCP, TLS, plain HTTP.
//     Where it says ask, the flow waits for the user's answer.
//  3. What does it speak? The first bytes are read before any of them is passed on
//     (package sniff). TLS must name the destination in its ClientHello, and plain HTTP
//     in every request.
//  4. Where is it really? The host resolves the name now, every address is vetted, and
//     a vetted address is dialled, as it is: no second look-up can give another.
//  5. Bytes flow, counted against the budget of the rule that allowed them.
//  6. One line goes to the log.
//
// Where raw TCP is allowed, step 4 comes before step 3 and what the server says is
// passed on at once: in many protocols the server speaks first.
//
// A refusal is an answer. A program that speaks HTTP gets a status and a small JSON
// document that says which rule decided and how to ask; TLS gets an alert; everything
// else a reset. http://coffer.internal/ tells programs inside the same things.
//
// # What is decided strictly
//
//   - A bare address: TLS without a server name is fine. A server name, or a Host other than
//     the address itself, must be allowed by itself; otherwise an allowed network would be a way
//     to any name that is served there.
//   - TLS is ended here, and begun anew towards the server, where a rule needs to see requests
//     (package intercept): each is then decided as one of plain HTTP is.
//   - TLS must name the destination, in the clear and alone: a ClientHello with an encrypted
//     part is refused, and so is a second one with another name.
//   - Raw TCP is not looked at. TLS that starts inside of it (STARTTLS) is not checked.
//   - A connection that begins like TLS or HTTP never counts as raw TCP.
//   - HTTP/2 without TLS cannot be read here. Its preface is refused unless a rule says
//     protocol = "tcp"; an upgrade to it is not passed on.
//   - Each HTTP request is decided before it leaves. One with a body is the last on its
//     connection, and says so to the server: not all servers agree on where bodies end.
//   - UDP to port 443 is refused, so that QUIC falls back to TLS, which can be read.
//   - Where the host has a proxy, a name that the host cannot resolve is left to the proxy only
//     if a rule or the user has named that very host: what the proxy reaches cannot be vetted.
//   - What does not come from the machine's own address goes nowhere. Programs inside may bind
//     to any address; an answer to such a one would come back here as a question.
//
// Everything from inside is hostile: each read, table and queue has a bound, and each
// wait before a decision has a deadline.
package gateway

import (
	"context"
	"crypto/x509"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/gateway/dns"
	"github.com/cofferhq/coffer/internal/intercept"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/policy"
	"golang.org/x/net/dns/dnsmessage"
)

// Config is what a gateway needs to know. Only Policy must be set.
type Config struct {
	Policy *policy.Set
	// Audit takes an event of the log. It must not block.
	Audit func(audit.Event)
	// Resolve looks a name up on the host. Nil: the host's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Lookup gets other records than addresses. Nil: the host's resolver.
	Lookup func(ctx context.Context, name string, kind dnsmessage.Type) ([]dnsmessage.ResourceBody, error)
	// Dial connects to a vetted address; network is "tcp" or "udp". Nil: a net.Dialer.
	Dial func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error)
	// Own says whether an address is the host's. Nil: those of its interfaces.
	Own func(netip.Addr) bool
	// Proxy is the host's own way out to a destination, nil for none. Nil: from the environment.
	Proxy func(host string, port uint16) *url.URL
	// HostPorts are the ports of the host's loopback interface that programs may reach.
	HostPorts []HostPort
	// Denied tells the user of a refusal, at most once a minute for a destination.
	Denied func(Denial)
	// Unreached tells the user, as seldom, of a destination that is allowed and cannot be had.
	// A connection inside was made already, so the program does not learn why it ends.
	Unreached func(Denial)
	// Allow is the command by which the user would allow a target, by a protocol if one
	// is given. Nil: coffer policy allow.
	Allow func(target, protocol string) string
	// Asked tells the user of a new question.
	Asked func(Request)
	// AskTimeout bounds how long a flow waits for an answer. Zero: two minutes.
	AskTimeout time.Duration
	// Budgets are counters of an earlier gateway of this sandbox, as [Gateway.Budgets] gave them.
	Budgets map[string]Used
	About   About
	// Authority signs for servers whose TLS is looked into. Nil: what needs that is refused.
	Authority *intercept.Authority
	// Serve, if set, answers what programs ask of http://coffer.internal/git/. It bounds what
	// it reads and how long it takes itself.
	Serve http.Handler
}

// HostPort makes a port of the host's loopback interface reachable as host.coffer.internal:Inside.
type HostPort struct{ Inside, Outside uint16 }

// About is what a sandbox may know of itself.
type About struct{ Name, ID string }

// limits bound what programs inside can make the gateway do.
type limits struct {
	flows     int           // connections at once
	sessions  int           // UDP conversations at once
	queries   int           // DNS queries in work at once
	about     int           // connections to coffer.internal at once
	ahead     int64         // bytes of long heads, of all connections
	names     int           // names with a synthetic address
	held      int           // flows that wait for an answer
	questions int           // questions open at once
	perMinute int           // new questions in a minute
	filed     int           // of the questions, those that no connection waits for
	dial      time.Duration // resolving and connecting
	sniff     time.Duration // for a first byte, before a flow is asked about or refused
	web       time.Duration // the same, at ports where programs speak first: some are slow
	first     time.Duration // for a first byte, where the server cannot speak first
	head      time.Duration // from the first byte to the end of a head
	linger    time.Duration // for a program to read an answer before the connection ends
	half      time.Duration // without a byte once one side has ended
	udpIdle   time.Duration
	tick      time.Duration // how often expired rules and idle flows are looked for
	cool      time.Duration // how long a "no" holds without a new question
}

func defaults() limits {
	return limits{
		flows: affordable(8192), sessions: affordable(1024), queries: 128, about: 64, names: 1 << 14, ahead: 64 << 20,
		held: 64, questions: 16, perMinute: 30, filed: 8,
		dial: 10 * time.Second, sniff: 500 * time.Millisecond, web: 3 * time.Second, first: 2 * time.Minute,
		head: 30 * time.Second, linger: 2 * time.Second, half: 15 * time.Minute,
		udpIdle: 2 * time.Minute, tick: 10 * time.Second, cool: time.Minute,
	}
}

// affordable bounds a number of connections by the descriptors that the process may have.
// A connection takes two, and the user's own commands must find one.
func affordable(most int) int {
	const others, each, least = 256, 4, 32
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil || l.Cur > 1<<20 {
		return most
	}
	return min(most, max(least, (int(l.Cur)-others)/each))
}

// A Gateway serves the link of one sandbox.
type Gateway struct {
	link     link.Link
	cfg      Config
	limits   limits
	policy   atomic.Pointer[policy.Set] // in force now
	table    *dns.Table
	resolver *dns.Resolver
	asks     *questions
	denials  *denials
	failures *denials // of what was allowed
	budgets  *budgets
	about    *about
	sessions *sessions
	ahead    *reserve       // for heads that are longer than a first read
	large    chan struct{}  // one for each large buffer
	queries  chan struct{}  // one for each DNS query in work
	records  *pace          // for look-ups of other records than addresses
	names    *pace          // for look-ups of addresses, where a pattern allows them
	roots    *x509.CertPool // of servers and proxies that speak TLS; nil: the host's

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	resolving atomic.Int32 // connections that ask for names

	mu     sync.Mutex
	flows  map[*flow]struct{}
	open   int // connections of every kind
	closed bool
}

// New makes a gateway for a link, which Close closes. It does nothing before Serve.
func New(l link.Link, c Config) *Gateway { return build(l, c, defaults()) }

func build(l link.Link, c Config, lim limits) *Gateway {
	if c.AskTimeout <= 0 {
		c.AskTimeout = 2 * time.Minute
	}
	g := &Gateway{
		link: l, cfg: c.filled(), limits: lim, flows: map[*flow]struct{}{},
		ahead: newReserve(lim.ahead), large: make(chan struct{}, maxLarge), queries: make(chan struct{}, lim.queries),
		table: dns.NewTable(lim.names), records: newPace(lookupsAtOnce, lookupsEvery), names: newPace(namesAtOnce, namesEvery), budgets: newBudgets(c.Budgets),
		denials: newDenials(c.Denied), failures: newDenials(c.Unreached),
		asks: newQuestions(lim, c.AskTimeout, c.Asked),
	}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.policy.Store(c.Policy)
	g.resolver = &dns.Resolver{Table: g.table, Allow: g.allowName, Lookup: g.lookup}
	g.about = newAbout(g)
	g.sessions = &sessions{g: g, all: map[pair]*session{}}
	return g
}

// filled is the config with the host's own ways for those that are not set.
func (c Config) filled() Config {
	if c.Audit == nil {
		c.Audit = func(audit.Event) {}
	}
	if c.Resolve == nil {
		c.Resolve = resolve
	}
	if c.Lookup == nil {
		c.Lookup = lookup
	}
	if c.Dial == nil {
		c.Dial = dial
	}
	if c.Own == nil {
		c.Own = ownAddress
	}
	if c.Proxy == nil {
		c.Proxy = environmentProxy()
	}
	return c
}

// Serve carries flows and datagrams until Close. It returns an error only when the link breaks.
func (g *Gateway) Serve() error {
	ended := make(chan error, 1)
	datagrams := func() {
		err := g.datagrams()
		_ = g.link.Close() // which ends accept: half a network is none
		ended <- err
	}
	if !g.start(datagrams) {
		return nil
	}
	g.start(g.tick)
	g.start(g.about.serve)
	err := g.accept()
	_ = g.link.Close()
	return errors.Join(err, <-ended)
}

// Close ends every flow and waits for all that the gateway has started.
func (g *Gateway) Close() error {
	g.mu.Lock()
	g.closed = true
	flows := g.all()
	g.mu.Unlock()
	g.cancel()
	err := g.link.Close()
	g.about.close()
	g.asks.close()
	g.sessions.close()
	for _, f := range flows {
		f.end("the sandbox's network was closed")
	}
	g.running.Wait()
	return err
}

// start runs a function that Close waits for. It says no when the gateway is closed.
func (g *Gateway) start(run func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running.Go(run)
	return true
}

// all returns the flows of now; the caller holds the lock.
func (g *Gateway) all() []*flow {
	return slices.Collect(maps.Keys(g.flows))
}

// accept takes flows until the link is closed.
func (g *Gateway) accept() error {
	for {
		in, err := g.link.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		g.take(in)
	}
}

// take starts to serve a flow, or refuses it when there are too many.
func (g *Gateway) take(in link.Flow) {
	g.mu.Lock()
	full := g.open >= g.limits.flows
	if !full {
		g.open++
	}
	g.mu.Unlock()
	if full {
		in.Refuse()
		g.cfg.Audit(audit.Event{
			Kind: audit.KindLimit, Addr: in.Destination().Addr(), Port: in.Destination().Port(),
			Verdict: policy.Deny.String(), Reason: "too many connections are open",
		})
		return
	}
	ok := g.start(func() {
		defer func() {
			g.mu.Lock()
			g.open--
			g.mu.Unlock()
		}()
		g.serve(in)
	})
	if !ok {
		in.Refuse()
	}
}

// sleep waits. It says no when the gateway is closed.
func (g *Gateway) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-g.ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

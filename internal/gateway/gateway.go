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
//   - A bare address: TLS without a server name is fine. A server name, or a Host other
//     than the address itself, must be one that the policy allows by itself; otherwise an allowed
//     network would be a way to any name that is served there.
//   - TLS must name the destination, in the clear and alone: a ClientHello with an encrypted
//     part is refused, and so is a second one with another name.
//   - Raw TCP is raw. Where a rule allows it, what begins as neither TLS nor HTTP is not
//     looked at any further; TLS that starts inside of it (STARTTLS) is not checked.
//   - HTTP/2 without TLS cannot be read here. Its preface is refused unless a rule says
//     protocol = "tcp" in so many words; an upgrade to it is not passed on, so the request goes
//     on as HTTP/1.1.
//   - HTTP requests that are pipelined are passed on one at a time.
//   - The body of a request that says "Expect: 100-continue" waits a moment for that. If it is
//     answered without, the body is not passed on and the request is the last of its connection: not
//     every server and proxy agree on where it ends.
//   - A response that nobody asked for ends the connection, and is not passed on unless it says that the
//     server is tired of waiting: what it answers may have been hidden in the body of a request.
//   - UDP to port 443 is refused, so that QUIC falls back to TLS, which can be read.
//   - Where the host has a proxy, a name that the host cannot resolve is left to the proxy only if a
//     rule or the user has named that very host: what the proxy then reaches cannot be vetted.
//   - What does not come from the machine's own address goes nowhere. Inside, programs may
//     bind to any address; an answer to such a one would come back here as a question.
//   - A connection that has begun like TLS or HTTP is that, or nothing: it never counts as raw TCP.
//
// Everything from inside is hostile: each read, table and queue has a bound, and each
// wait before a decision has a deadline.
package gateway

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/gateway/dns"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/policy"
	"golang.org/x/net/dns/dnsmessage"
)

// Config is what a gateway needs to know. Only Policy or Later must be set.
type Config struct {
	Policy *policy.Set
	// Later gives the policy when it is first needed, for one that is known to be right
	// and takes longer to put together than most sandboxes live.
	Later func() *policy.Set
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
	// Serve, if set, answers what programs ask of http://coffer.internal/git/. It bounds what
	// it reads and how long it takes itself.
	Serve http.Handler
	// Closed says, of a connection by its two ends, whether no program has the one inside any
	// more, where that can be seen. Nil: it cannot.
	Closed func(from, to netip.AddrPort) bool
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
	ahead     int64         // bytes read ahead of a decision, of all connections
	waiting   int64         // bytes of datagrams that wait for a socket
	names     int           // names with a synthetic address
	held      int           // flows that wait for an answer
	questions int           // questions open at once
	perMinute int           // new questions in a minute
	filed     int           // of the questions, those that no connection waits for
	filing    time.Duration // how long these stay open
	dial      time.Duration // resolving and connecting
	sniff     time.Duration // for a flow to say what it speaks, before the user is asked about it
	glance    time.Duration // the same, for one that is refused, where most programs that speak first do so at once
	web       time.Duration // the same, where no server speaks first: a slow machine is waited for
	first     time.Duration // until a first byte, where the server cannot speak first
	head      time.Duration // from the first byte to the end of a head, of a response too
	expect    time.Duration // for a server to say that it wants a body
	patience  time.Duration // in the middle of a line, where raw TCP is allowed
	linger    time.Duration // for a program to read an answer before the connection ends
	half      time.Duration // without a byte once one side has ended
	udpIdle   time.Duration
	tick      time.Duration // how often the rules are looked at again, for those that expire
	cool      time.Duration // how long a "no" holds without a new question
}

func defaults() limits {
	return limits{
		flows: affordable(8192), sessions: affordable(1024), queries: 128, about: 64, names: 1 << 14,
		ahead: 64 << 20, waiting: 4 << 20,
		held: 64, questions: 16, perMinute: 30, filed: 8, filing: time.Hour,
		dial: 10 * time.Second, sniff: 500 * time.Millisecond, glance: 100 * time.Millisecond, web: 3 * time.Second, first: 2 * time.Minute,
		head: 30 * time.Second, expect: time.Second, patience: 100 * time.Millisecond, linger: 2 * time.Second, half: 15 * time.Minute,
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
	policy   inForce
	table    *dns.Table
	resolver *dns.Resolver
	asks     *questions
	denials  *denials
	failures *denials // of what was allowed
	budgets  *budgets
	journal  *journal
	about    *about
	sessions *sessions
	large    loans          // large buffers
	queries  chan struct{}  // one for each DNS query in work
	records  *pace          // for look-ups of other records than addresses
	ahead    *reserve       // for what is read ahead of a decision
	waiting  *reserve       // for datagrams that wait
	roots    *x509.CertPool // for a proxy that speaks TLS; nil: the host's

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

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
	g := &Gateway{link: l, limits: lim, flows: map[*flow]struct{}{}}
	g.large, g.queries = make(loans, maxLoans), make(chan struct{}, lim.queries)
	g.ahead, g.waiting = newReserve(lim.ahead), newReserve(lim.waiting)
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.cfg = c.filled()
	g.policy.set(c.Policy, c.Later)
	g.table = dns.NewTable(lim.names)
	g.resolver = &dns.Resolver{Table: g.table, Allow: g.allowName, Lookup: g.lookup}
	g.records = newPace()
	g.journal = newJournal(c.Audit)
	g.denials, g.failures = newDenials(c.Denied), newDenials(c.Unreached)
	g.budgets = newBudgets(c.Budgets)
	g.asks = newQuestions(lim, c.AskTimeout, c.Asked)
	g.about = newAbout(g)
	g.sessions = newSessions(g)
	return g
}

// filled is the config with the host's own ways for those that are not set.
func (c Config) filled() Config {
	if c.Resolve == nil {
		c.Resolve = newResolver().resolve
	}
	if c.Lookup == nil {
		c.Lookup = lookup
	}
	if c.Dial == nil {
		c.Dial = dial
	}
	if c.Own == nil {
		c.Own = (&ownAddresses{}).has
	}
	if c.Proxy == nil {
		c.Proxy = environmentProxy()
	}
	return c
}

// Serve carries flows and datagrams until Close. It returns an error only when the link breaks.
func (g *Gateway) Serve() error {
	failed := make(chan error, 1)
	datagrams := func() {
		err := g.datagrams()
		failed <- err
		if err != nil {
			_ = g.link.Close() // so that accept ends as well: half a network is none
		}
	}
	if !g.start(datagrams) {
		return nil
	}
	g.start(g.tick)
	g.start(g.about.serve)
	err := g.accept()
	select {
	case <-g.ctx.Done():
		return nil
	default:
	}
	if err == nil { // the link was closed, perhaps by the other side
		err = <-failed
	}
	return err
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
	g.journal.flush(time.Now(), true)
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
	flows := make([]*flow, 0, len(g.flows))
	for f := range g.flows {
		flows = append(flows, f)
	}
	return flows
}

// accept takes flows. Being out of descriptors or memory for a while is no reason to end.
func (g *Gateway) accept() error {
	for pause := time.Duration(0); ; {
		in, err := g.link.Accept()
		if err == nil {
			pause = 0
			g.take(in)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if !passing(err) {
			return err
		}
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		if !g.sleep(pause) {
			return nil
		}
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
		g.journal.refused(audit.Event{
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

// passing says that an error of accepting will pass by itself.
func passing(err error) bool {
	for _, e := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED,
		syscall.ECONNRESET, syscall.EINTR, syscall.EAGAIN, syscall.EPERM, syscall.EPROTO,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

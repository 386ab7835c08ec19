package gateway

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/policy"
)

// A destination is what a program means to reach.
type destination struct {
	host string     // the name, or ""
	addr netip.Addr // when there is no name
	port uint16
}

// ask is the question that the policy is asked about it.
func (d destination) ask(p policy.Protocol) policy.Query {
	return policy.Query{Host: d.host, Addr: d.addr, Port: d.port, Protocol: p, Now: time.Now()}
}

// name is the name or the address.
func (d destination) name() string {
	if d.host != "" {
		return d.host
	}
	return d.addr.String()
}

// locate finds out what a program means by an address, or why no rule could allow it.
func (g *Gateway) locate(from, at netip.AddrPort) (to destination, why string) {
	a := at.Addr().Unmap().WithZone("")
	to = destination{addr: a, port: at.Port()}
	switch {
	case !own(from):
		return to, "it does not come from the sandbox's own address"
	case nowhere(a):
		return to, "no program can be reached at this address"
	case !link.Synthetic4.Contains(a) && !link.Synthetic6.Contains(a):
		return to, ""
	}
	name, ok := g.table.Name(a)
	if ok {
		// A program may look up an address in some spelling; then it means that address.
		q, err := policy.NewQuery(name, 0)
		to.host, to.addr, ok = q.Host, q.Addr, err == nil
	}
	if !ok {
		return destination{addr: a, port: at.Port()}, "this address belongs to no name; look the name up again"
	}
	return to, ""
}

// own says whether something comes from the machine itself.
func own(from netip.AddrPort) bool {
	a := from.Addr().Unmap()
	return a == link.Own4 || a == link.Own6
}

// nowhere says that an address cannot be anybody else's than the sandbox's own or the
// link's. A correct link delivers no flow to most of them.
func nowhere(a netip.Addr) bool {
	return link.Reserved4.Contains(a) || link.Reserved6.Contains(a) ||
		a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() || !a.IsValid()
}

// A flow is one TCP connection of a program inside, from its acceptance to its line in
// the log. Its own goroutine carries what the program sends; another one dials, and carries
// what the server sends.
type flow struct {
	*clearance
	g      *Gateway
	local  uint16 // port of the host's loopback to dial; 0 for any other destination
	start  time.Time
	client *client
	ctx    context.Context // ends the dialling
	cancel context.CancelFunc

	sent, received atomic.Int64
	requests       int // HTTP requests that were passed on
	offer          atomic.Pointer[offer]

	opened  chan struct{} // closed when dialling is over; nil before connect
	failure *refusal      // why dialling failed; valid after opened
	down    chan struct{} // closed when nothing more comes from the server

	mu      sync.Mutex
	up      net.Conn
	method  string // of the first request
	path    string
	stopped bool                    // the server's side was ended by us
	over    bool                    // both sides were ended by us
	denied  bool                    // a refusal is in the log
	closed  string                  // why the flow ended
	inside  map[*clearance]struct{} // of requests in TLS that is looked into, while they last
	half    bool                    // one side has ended
	moved   int64                   // bytes moved when it was last found moving
	since   time.Time
}

// serve serves one TCP connection.
func (g *Gateway) serve(in link.Flow) {
	at := in.Destination()
	a := at.Addr().Unmap()
	switch {
	case own(in.Source()) && at.Port() == dnsPort:
		g.serveDNS(in)
		return
	case own(in.Source()) && (a == link.About4 || a == link.About6):
		g.about.take(in)
		return
	}
	f := &flow{g: g, start: time.Now()}
	f.ctx, f.cancel = context.WithCancel(g.ctx)
	defer f.cancel()
	to, why := g.locate(in.Source(), at)
	d := policy.Decision{Rule: builtin, Reason: why}
	if own(in.Source()) && (a == link.Host4 || a == link.Host6) {
		to = destination{host: link.HostName, port: at.Port()}
		if d, _ = Internal(to.ask(policy.TCP), g.cfg.HostPorts); d.Verdict != policy.Allow {
			why = d.Reason
		} else {
			f.local, why = hostPort(g.cfg.HostPorts, to.port), ""
		}
	}
	f.clearance = &clearance{g: g, destination: to, fixed: f.local != 0}
	if why != "" {
		in.Refuse()
		f.record(denied(d))
		return
	}
	conn, err := in.Accept()
	if err != nil {
		return
	}
	f.client = &client{Conn: conn, reserve: g.ahead}
	if !f.register() {
		conn.Reset()
		return
	}
	defer f.leave()
	if f.local != 0 {
		// The config has named the port, and what listens there may speak anything.
		f.settle(g.policy.Load(), to.ask(policy.TCP), policy.Query{}, d, nil, netip.Addr{})
		if r := f.relay(); r != nil {
			f.record(r)
			f.client.Reset()
		}
		return
	}
	if kind, r := f.talk(); r != nil {
		f.refuse(kind, r)
	}
}

// register makes a flow known to changes of the policy. It says no when the gateway is closed.
func (f *flow) register() bool {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if f.g.closed {
		return false
	}
	f.g.flows[f] = struct{}{}
	return true
}

// leave ends a flow that was served and logs it.
func (f *flow) leave() {
	f.stop()
	_ = f.client.Close()
	f.client.forget()
	f.g.mu.Lock()
	delete(f.g.flows, f)
	f.g.mu.Unlock()

	f.mu.Lock()
	defer f.mu.Unlock()
	if f.denied && f.sent.Load() == 0 {
		return // the refusal says it all
	}
	e := f.event()
	e.Time, e.Sent, e.Received = f.start, f.sent.Load(), f.received.Load()
	e.Duration, e.Close, e.Method, e.Path = time.Since(f.start), f.closed, f.method, f.path
	if f.requests > 1 {
		e.Detail = fmt.Sprintf("%d requests", f.requests)
	}
	f.g.cfg.Audit(e)
}

// end breaks a flow off, from any goroutine. Both sides see a reset.
func (f *flow) end(why string) {
	f.note(why)
	f.mu.Lock()
	f.over, f.stopped = true, true
	up := f.up
	f.mu.Unlock()
	f.cancel()
	f.client.Reset()
	if up != nil {
		reset(up)
	}
}

// stop ends the server's side and waits until nothing of it can reach the program.
func (f *flow) stop() {
	f.mu.Lock()
	f.stopped = true
	up := f.up
	f.mu.Unlock()
	f.cancel()
	if up != nil {
		_ = up.Close()
	}
	if f.down != nil {
		// Nor may it wait for a program that does not read.
		_ = f.client.SetWriteDeadline(time.Now().Add(f.g.limits.linger))
		<-f.down
	}
}

func (f *flow) isOver() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over
}

// isStopped says that the server's side was ended by us.
func (f *flow) isStopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

// isDown says that nothing more comes from the server.
func (f *flow) isDown() bool {
	select {
	case <-f.down:
		return true
	default:
		return false
	}
}

// note says why a flow ends, unless something else has said it before.
func (f *flow) note(why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed == "" {
		f.closed = why
	}
}

// halved notes that one side has ended.
func (f *flow) halved() {
	f.mu.Lock()
	f.half = true
	f.mu.Unlock()
}

// stale says that nothing has moved for long on a flow of which one side has ended: the
// program may be gone.
func (f *flow) stale(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if moved := f.sent.Load() + f.received.Load(); moved != f.moved || f.since.IsZero() || !f.half {
		f.moved, f.since = moved, now
		return false
	}
	return now.Sub(f.since) >= f.g.limits.half
}

// bye closes both sides after all was said.
func (f *flow) bye(why string) {
	f.note(why)
	f.stop()
	f.client.part(f.g.limits.linger)
}

// exceed ends a flow whose budget was used up while it ran.
func (f *flow) exceed(direction string) {
	f.overrun(direction)
	f.end("the " + direction + " limit is used up")
}

// overrun tells the log and the user that a budget was used up while a flow ran, and returns
// what the program can be told; nil if the flow has ended anyway.
func (f *flow) overrun(direction string) *refusal {
	if f.isStopped() {
		return nil
	}
	r := f.spent()
	e := f.event()
	e.Kind, e.Verdict, e.Reason, e.Detail = audit.KindLimit, policy.Deny.String(), r.decision.Reason, direction
	f.g.denials.add(f.denial(r))
	f.g.cfg.Audit(e)
	return r
}

// reset closes a connection so that its other end sees an error and not an end.
func reset(c net.Conn) {
	switch t := c.(type) {
	case interface{ Reset() }:
		t.Reset()
	case *net.TCPConn:
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

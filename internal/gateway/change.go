package gateway

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/policy"
)

// inForce is the policy that counts now.
type inForce struct {
	atomic.Pointer[policy.Set]
	once  sync.Once
	later func() *policy.Set
}

func (p *inForce) set(now *policy.Set, later func() *policy.Set) {
	if p.later = later; now != nil {
		p.Store(now)
	}
}

func (p *inForce) Load() *policy.Set {
	if set := p.Pointer.Load(); set != nil {
		return set
	}
	// Should it be changed meanwhile, the change counts.
	p.once.Do(func() { p.CompareAndSwap(nil, p.later()) })
	return p.Pointer.Load()
}

// SetPolicy puts other rules in force. Flows that they no longer allow are closed, and
// flows that wait for an answer are decided again.
func (g *Gateway) SetPolicy(set *policy.Set) {
	g.policy.Store(set)
	g.review(time.Now())
	g.asks.reconsider(set)
}

// tick looks at the rules from time to time: some expire.
func (g *Gateway) tick() {
	for g.sleep(g.limits.tick) {
		now := time.Now()
		g.review(now)
		g.sessions.sweep(now)
		g.journal.flush(now, false)
	}
}

// review closes what the rules do not allow, at a time.
func (g *Gateway) review(now time.Time) {
	set := g.policy.Load()
	g.mu.Lock()
	flows := g.all()
	g.mu.Unlock()
	for _, f := range flows {
		if why := f.review(set, now); why != "" {
			f.end(why)
		}
	}
	g.sessions.review(set, now)
}

// review says why a flow must end, "" if it may go on.
func (f *flow) review(set *policy.Set, now time.Time) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stale(now) {
		return "idle after one side had ended"
	}
	if !f.decided || f.local.IsValid() {
		return "" // what is decided later is decided by the rules of then
	}
	q := f.query
	q.Now = now
	d := set.Decide(q)
	if between(q) {
		d = set.Connect(q).HTTP
	}
	if d.Verdict == policy.Deny || d.Verdict == policy.Ask && !between(q) && !f.granted[questionOf(q, d)] {
		return "the rules have changed: " + d.Reason
	}
	if r := checkForeign(set, f.foreign, now); r != nil {
		return "the rules have changed: " + r.decision.Reason
	}
	if f.addr.IsValid() {
		if v := f.g.vet(set, q, f.addr, d); v.Verdict != policy.Allow {
			return "the rules have changed: " + v.Reason
		}
	}
	f.account.Store(f.g.budgets.account(d.Budget, f.destination()))
	return ""
}

// between says that a query is about a connection between two HTTP requests, of which
// the next is decided by itself.
func between(q policy.Query) bool { return q.Protocol == policy.HTTP && q.Method == "" }

// stale says that nothing has moved for long on a flow of which one side has ended:
// the program may be gone. The caller holds the lock.
func (f *flow) stale(now time.Time) bool {
	if moved := f.sent.Load() + f.received.Load(); moved != f.moved || f.since.IsZero() || !f.half {
		f.moved, f.since = moved, now
		return false
	}
	return now.Sub(f.since) >= f.g.limits.half
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
	if f.logged && f.sent.Load() == 0 {
		return // the refusal says it all
	}
	e := audit.Event{
		Time: f.start, Kind: audit.KindFlow, Host: f.host, Addr: f.addr, Port: f.port,
		Sent: f.sent.Load(), Received: f.received.Load(), Duration: time.Since(f.start), Close: f.closed,
	}
	if !f.addr.IsValid() {
		e.Addr = f.target
	}
	if f.requests > 1 {
		e.Detail = fmt.Sprintf("%d requests", f.requests)
	}
	if !f.decided { // it said nothing, and there was nothing to decide
		f.g.journal.refused(e)
		return
	}
	e.Protocol, e.Verdict = f.query.Protocol.String(), policy.Allow.String()
	e.Rule, e.Reason = f.decision.Rule, f.decision.Reason
	e.Method, e.Path = f.method, f.path
	if f.decision.Verdict == policy.Ask {
		e.Reason += "; the user said yes"
	}
	f.g.journal.add(e)
}

// end breaks a flow off, from any goroutine. Both sides see a reset.
func (f *flow) end(why string) {
	f.mu.Lock()
	if f.closed == "" {
		f.closed = why
	}
	f.over, f.stopped = true, true
	up := f.up
	f.mu.Unlock()
	f.cancel()
	f.client.Reset()
	if up != nil {
		reset(up)
	}
}

func (f *flow) isOver() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over
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

// isStopped says that the server's side was ended by us.
func (f *flow) isStopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

// halved notes that one side has ended.
func (f *flow) halved() {
	f.mu.Lock()
	f.half, f.since = true, time.Now()
	f.mu.Unlock()
}

// note says why a flow ends, unless something else has said it before.
func (f *flow) note(why string) {
	f.mu.Lock()
	if f.closed == "" {
		f.closed = why
	}
	f.mu.Unlock()
}

// idle makes a flow of HTTP known as one between two requests.
func (f *flow) idle() {
	f.mu.Lock()
	f.query.Method, f.query.Path = "", ""
	f.foreign.Method, f.foreign.Path = "", "" // the name stays: a body may still be on its way to it
	f.mu.Unlock()
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

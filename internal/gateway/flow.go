package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cofferhq/coffer/internal/gateway/sniff"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/policy"
)

// A flow is one TCP connection of a program inside, from its acceptance to its line in
// the log. Two goroutines serve it: run carries what the program sends, receive dials
// and carries what the server sends.
type flow struct {
	g      *Gateway
	host   string     // the name that the program meant, or ""
	target netip.Addr // the address that it meant, when it meant no name
	port   uint16
	local  netip.AddrPort // where to dial, for a port of the host; otherwise not valid
	start  time.Time
	client *inside
	ctx    context.Context // ends the dialling
	cancel context.CancelFunc

	sent, received atomic.Int64
	account        atomic.Pointer[account]
	mode           atomic.Uint32
	requests       int64 // HTTP requests that were passed on

	opened  chan struct{} // closed when dialling is over; nil before open
	refused *refusal      // why it failed; valid after opened
	// By which rules, and for which protocol, the address that is dialled is vetted.
	vetted   *policy.Set
	vettedAs policy.Protocol
	down     chan struct{}  // closed when receive is over
	turn     chan *exchange // the HTTP request whose answer comes next

	upLane   *lane // of run
	downLane *lane // of receive

	mu       sync.Mutex
	up       net.Conn
	addr     netip.Addr // of up, when it was dialled directly
	decided  bool
	set      *policy.Set     // by which it was decided
	query    policy.Query    // what it was last decided as
	foreign  policy.Query    // the name that was given for a bare address; without a Host: none
	decision policy.Decision // Ask if the user has said yes
	granted  map[question]bool
	method   string // of the first request
	path     string
	stopped  bool   // the server's side was ended by us
	over     bool   // both sides were ended by us
	logged   bool   // the refusal is in the log
	closed   string // why the flow ended
	moved    int64  // what had been moved when tick last looked, and when that was
	since    time.Time
	half     bool // one side has ended
}

// The modes of a flow: what becomes of the bytes that a server sends.
const (
	undecided uint32 = iota // passed on, while the program has not said what it speaks
	relaying                // passed on
	speaking                // passed on as HTTP responses
	served                  // passed on, and so much of it that HTTP can no longer follow
)

// serve decides what kind of destination a flow has.
func (g *Gateway) serve(in link.Flow) {
	to := netip.AddrPortFrom(in.Destination().Addr().Unmap().WithZone(""), in.Destination().Port())
	f := &flow{g: g, port: to.Port(), start: time.Now()}
	f.ctx, f.cancel = context.WithCancel(g.ctx)
	defer f.cancel()
	switch a := to.Addr(); {
	case !own(in.Source()):
		f.target = a
		f.turnAway(in, "it does not come from the sandbox's own address")
	case to.Port() == dnsPort:
		g.serveDNS(in)
	case a == link.About4 || a == link.About6:
		g.about.take(in)
	case a == link.Host4 || a == link.Host6:
		f.host = link.HostName
		f.runHost(in)
	case nowhere(a):
		f.target = a
		f.turnAway(in, "no program can be reached at this address")
	case link.Synthetic4.Contains(a) || link.Synthetic6.Contains(a):
		if f.host, f.target = g.meant(a); f.host == "" && !f.target.IsValid() {
			f.target = a
			f.turnAway(in, "this address belongs to no name; look the name up again")
			return
		}
		f.run(in)
	default:
		f.target = a
		f.run(in)
	}
}

// meant returns the name that has a synthetic address. A program may look up a name that is
// an address in some spelling; then it meant that address.
func (g *Gateway) meant(a netip.Addr) (host string, target netip.Addr) {
	name, ok := g.table.Name(a)
	if !ok {
		return "", netip.Addr{}
	}
	q, err := policy.NewQuery(name, 0)
	if err != nil {
		return "", netip.Addr{}
	}
	return q.Host, q.Addr
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

// turnAway refuses a flow that no rule could allow.
func (f *flow) turnAway(in link.Flow, why string) {
	in.Refuse()
	f.record(denied(policy.Decision{Rule: "built-in", Reason: why}))
}

// run serves a flow to a destination outside.
func (f *flow) run(in link.Flow) {
	conn, err := in.Accept()
	if err != nil {
		return
	}
	f.client = &inside{Conn: conn, claim: claim{reserve: f.g.ahead}}
	if closed := f.g.cfg.Closed; closed != nil {
		f.client.closed = func() bool { return closed(in.Source(), in.Destination()) }
	}
	if !f.register() {
		conn.Reset()
		return
	}
	defer f.leave()
	if kind, r := f.talk(); r != nil {
		f.refuse(kind, r)
	}
}

// talk learns what the program speaks, decides, and carries. If it returns a refusal,
// the program is to be told so, and sniff.NeedMore says that it is not known yet how.
func (f *flow) talk() (sniff.Kind, *refusal) {
	possible := f.g.policy.Load().Connect(f.ask(policy.Any))
	if possible.Best().Verdict == policy.Deny {
		return f.overhear(possible)
	}
	wait, patience := f.g.limits.first, f.g.limits.patience
	switch possible.Raw.Verdict {
	case policy.Deny:
		patience = 0 // it can only be waited for
	case policy.Allow:
		if r := f.openRaw(); r != nil {
			return sniff.NeedMore, r
		}
		wait = 0
	case policy.Ask:
		wait = f.g.limits.sniff
	}
	kind, err := f.client.first(wait, f.g.limits.head, patience)
	if isTimeout(err) && len(f.client.ahead) == 0 && possible.Raw.Verdict == policy.Ask {
		// It waits for the server to speak: the question is about raw TCP.
		if r := f.openRaw(); r != nil {
			return sniff.NeedMore, r
		}
		kind, err = f.client.first(0, f.g.limits.head, patience)
	}
	if err == nil && len(f.client.ahead) == 0 && f.opened == nil {
		err = io.EOF // it hung up, and nobody was to be reached without a word from it
	}
	if err != nil {
		return sniff.NeedMore, f.silent(err)
	}
	r := f.speak(kind)
	if r != nil && r.decision.Verdict != policy.Deny || r != nil && r.what == "bad request" {
		if failed := f.failed(); failed != nil {
			r = failed // that the server cannot be reached says more
		}
	}
	return kind, r
}

// openRaw permits raw TCP and begins to dial.
func (f *flow) openRaw() *refusal {
	if r := f.permit(f.ask(policy.TCP)); r != nil {
		return r
	}
	f.open(f.ask(policy.TCP))
	return nil
}

// speak goes on in the protocol that the first bytes have shown.
func (f *flow) speak(kind sniff.Kind) *refusal {
	switch kind {
	case sniff.TLS:
		return f.speakTLS()
	case sniff.HTTP:
		return f.speakHTTP()
	case sniff.NeedMore:
		return f.speakSlowly()
	case sniff.H2Preface:
		d := f.g.policy.Load().Decide(f.ask(policy.TCP))
		if d.Verdict != policy.Deny && d.Protocol != policy.TCP {
			d.Verdict = policy.Deny
			d.Reason = "HTTP/2 without TLS cannot be checked; only a rule with protocol tcp allows it"
			return denied(d)
		}
	}
	if !f.settled(policy.TCP) {
		if r := f.permit(f.ask(policy.TCP)); r != nil {
			return r
		}
	}
	return f.relay(nil)
}

// silent says what to do about a program whose first bytes did not come.
func (f *flow) silent(err error) *refusal {
	if r := f.failed(); r != nil {
		return r
	}
	switch {
	case errors.Is(err, errFull):
		return malformed(err)
	case errors.Is(err, io.EOF):
		return &refusal{closed: "the program sent nothing", hangUp: true}
	case isTimeout(err):
		return &refusal{closed: "the program did not say in time what it speaks", hangUp: true}
	}
	return &refusal{closed: "reset by the program", hangUp: true}
}

// ask is the question that the policy is asked about this flow.
func (f *flow) ask(p policy.Protocol) policy.Query {
	return policy.Query{Host: f.host, Addr: f.target, Port: f.port, Protocol: p, Now: time.Now()}
}

// permit takes a decision to its end: it asks the user if it must, and what it permits
// becomes what the flow is known as. It returns nil, or why not.
func (f *flow) permit(q policy.Query) *refusal { return f.permitNamed(q, policy.Query{}) }

// permitNamed is permit for a program that may have given a name for a bare address.
func (f *flow) permitNamed(q, foreign policy.Query) *refusal {
	for {
		set := f.g.policy.Load()
		q.Now = time.Now()
		if r := checkForeign(set, foreign, q.Now); r != nil {
			return r
		}
		d := set.Decide(q)
		if d.Verdict == policy.Ask && !f.hasGrant(q, d) {
			if r := f.g.special(set, q, d); r != nil {
				return r
			}
			switch answer, why := f.hold(q, d); answer {
			case answerNo:
				d.Verdict, d.Reason = policy.Deny, why
				return denied(d)
			case answerGone:
				return &refusal{closed: why, hangUp: true}
			case answerChanged:
				continue
			}
			f.grant(q, d)
		}
		if d.Verdict == policy.Deny {
			return denied(d)
		}
		if a := f.dialled(); a.IsValid() {
			if v := f.g.vet(set, q, a, d); v.Verdict != policy.Allow {
				return deniedAddress(v, a)
			}
		}
		account := f.g.budgets.account(d.Budget, f.destination())
		if account.spent() {
			return overBudget(d, account)
		}
		if f.settle(set, q, foreign, d, account) {
			return nil
		}
	}
}

// settle makes a decision the flow's. It says no when the policy has changed meanwhile:
// either a change finds the flow settled, or the flow finds the policy changed.
func (f *flow) settle(set *policy.Set, q, foreign policy.Query, d policy.Decision, a *account) bool {
	f.mu.Lock()
	f.decided, f.set, f.query, f.foreign, f.decision = true, set, q, foreign, d
	f.mu.Unlock()
	f.account.Store(a)
	return f.g.policy.Load() == set
}

// settled says that the rules of now have decided about the flow as one of this protocol.
func (f *flow) settled(p policy.Protocol) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.decided && f.query.Protocol == p && f.query.Method == "" && f.set == f.g.policy.Load()
}

func (f *flow) hasGrant(q policy.Query, d policy.Decision) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.granted[questionOf(q, d)]
}

func (f *flow) grant(q policy.Query, d policy.Decision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.granted == nil {
		f.granted = map[question]bool{}
	}
	f.granted[questionOf(q, d)] = true
}

// dialled is the address of the connection, if there is one.
func (f *flow) dialled() netip.Addr {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.addr
}

// destination is the name or address that the flow is for.
func (f *flow) destination() string {
	if f.host != "" {
		return f.host
	}
	return f.target.String()
}

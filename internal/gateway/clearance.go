package gateway

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/gateway/sniff"
	"github.com/cofferhq/coffer/internal/policy"
)

// A clearance is the decision by which a flow goes on. It is looked at again whenever the
// rules change.
type clearance struct {
	destination
	g *Gateway

	mu       sync.Mutex
	fixed    bool // no rule decides: a port of the host
	decided  bool
	set      *policy.Set // by which it was decided
	query    policy.Query
	foreign  policy.Query    // the name that was given for a bare address; without a Host: none
	decision policy.Decision // Ask if the user has said yes
	dialled  netip.Addr      // not valid if nothing was, or by a proxy
	account  *account
	granted  map[question]bool
}

// waiter says how a program that hangs up is noticed while the user is asked.
type waiter func() (gone <-chan struct{}, stop func())

// permit decides about a query, asks the user if it must, and makes what it permits the
// clearance. It returns nil, or why not. foreign is a name that was given for a bare address.
func (c *clearance) permit(q, foreign policy.Query, wait waiter) *refusal {
	for {
		set := c.g.policy.Load()
		q.Now = time.Now()
		if r := checkForeign(set, foreign, q.Now); r != nil {
			return r
		}
		d := set.Decide(q)
		if d.Verdict == policy.Ask && !c.isGranted(q, d) {
			if r := c.g.special(set, q, d); r != nil {
				return r
			}
			switch answer, why := c.hold(q, d, wait); answer {
			case answerNo:
				d.Verdict, d.Reason = policy.Deny, why
				return denied(d)
			case answerGone:
				return &refusal{closed: why, hangUp: true}
			case answerChanged:
				continue
			}
			c.grant(q, d)
		}
		if d.Verdict == policy.Deny {
			return c.g.unruled(q, d)
		}
		a := c.address()
		if a.IsValid() {
			if v := c.g.vet(set, q, a, d); v.Verdict != policy.Allow {
				return deniedAddress(v, a)
			}
		}
		account := c.g.budgets.account(d.Budget, c.name())
		if account.spent() {
			return overBudget(d, account)
		}
		if c.settle(set, q, foreign, d, account, a) {
			return nil
		}
	}
}

// hold waits for the user's answer.
func (c *clearance) hold(q policy.Query, d policy.Decision, wait waiter) (reply, string) {
	p, r, why := c.g.asks.put(q, d, true)
	if p == nil {
		return r, why
	}
	defer c.g.asks.release(p)
	gone, stop := wait()
	defer stop()
	select {
	case <-p.done:
		return p.reply, p.why
	case <-gone:
		return answerGone, "the program did not wait for the user's answer"
	}
}

// settle makes a decision the clearance. It says no when the policy has changed meanwhile, or
// another address than the vetted one was dialled: either a change finds the clearance
// settled, or settle finds the change.
func (c *clearance) settle(set *policy.Set, q, foreign policy.Query, d policy.Decision, a *account, vetted netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dialled != vetted {
		return false
	}
	c.decided, c.set, c.query, c.foreign, c.decision, c.account = true, set, q, foreign, d, a
	return c.g.policy.Load() == set
}

// settled says that the rules of now have decided about a protocol, whatever is said in it.
func (c *clearance) settled(p policy.Protocol) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.decided && c.query.Protocol == p && c.query.Method == "" && c.set == c.g.policy.Load()
}

// current returns what was decided last, and how.
func (c *clearance) current() (policy.Query, policy.Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.query, c.decision
}

func (c *clearance) isGranted(q policy.Query, d policy.Decision) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.granted[questionOf(q, d)]
}

func (c *clearance) grant(q policy.Query, d policy.Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.granted == nil {
		c.granted = map[question]bool{}
	}
	c.granted[questionOf(q, d)] = true
}

// adopt notes which address was dialled, and says why the flow must end if the rules do not
// allow that now: those that came before can not have looked at it.
func (c *clearance) adopt(a netip.Addr) *refusal {
	c.mu.Lock()
	c.dialled = a
	c.mu.Unlock()
	if why := c.review(c.g.policy.Load(), time.Now()); why != "" {
		_, d := c.current()
		return denied(policy.Decision{Rule: d.Rule, Reason: why})
	}
	return nil
}

// review says why a flow must end by a set of rules, "" if it may go on.
func (c *clearance) review(set *policy.Set, now time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.decided || c.fixed {
		return "" // what is decided later is decided by the rules of then
	}
	q := c.query
	q.Now = now
	d := set.Decide(q)
	if d.Verdict == policy.Deny || d.Verdict == policy.Ask && !c.granted[questionOf(q, d)] {
		return rulesChanged + d.Reason
	}
	if q.Protocol == policy.TLS && q.Method == "" && set.Inspects(q) {
		return rulesChanged + "TLS is to be looked into"
	}
	if r := checkForeign(set, c.foreign, now); r != nil {
		return rulesChanged + r.decision.Reason
	}
	if c.dialled.IsValid() {
		if v := c.g.vet(set, q, c.dialled, d); v.Verdict != policy.Allow {
			return rulesChanged + v.Reason
		}
	}
	c.account = c.g.budgets.account(d.Budget, c.name())
	return ""
}

const rulesChanged = "the rules have changed: "

// checkForeign decides about a name that a program gives for a bare address, if it gives one.
func checkForeign(set *policy.Set, q policy.Query, now time.Time) *refusal {
	if q.Host == "" {
		return nil
	}
	q.Now = now
	d := set.Decide(q)
	if q.Protocol == policy.TLS && set.Inspects(q) {
		d.Verdict, d.Rule, d.Reason = policy.Deny, builtin, "its requests are to be looked at"
	}
	if d.Verdict == policy.Allow {
		return nil
	}
	d.Verdict = policy.Deny
	d.Reason = "the connection is for an address and names a server that is not allowed by itself: " + d.Reason
	r := denied(d)
	r.host, r.status, r.alert = q.Host, 421, sniff.AlertUnrecognizedName
	return r
}

// takeSent charges n bytes that leave the sandbox and returns how many of them may.
func (c *clearance) takeSent(n int) int { return c.charged().takeSent(n) }

// takeReceived charges n bytes that come into the sandbox and returns how many of them may.
func (c *clearance) takeReceived(n int) int { return c.charged().takeReceived(n) }

func (c *clearance) charged() *account {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.account
}

// spent is the refusal of a flow whose budget is used up.
func (c *clearance) spent() *refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.decision
	d.Verdict, d.Reason = policy.Deny, c.account.say()
	return &refusal{what: "limit", decision: d, protocol: c.query.Protocol}
}

// event is the line of a flow in the log, as far as the decision says it.
func (c *clearance) event() audit.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := audit.Event{Time: time.Now(), Kind: audit.KindFlow, Host: c.host, Addr: c.dialled, Port: c.port}
	if !e.Addr.IsValid() {
		e.Addr = c.addr
	}
	if c.decided {
		e.Protocol, e.Verdict = c.query.Protocol.String(), policy.Allow.String()
		e.Rule, e.Reason = c.decision.Rule, c.decision.Reason
		if c.decision.Verdict == policy.Ask {
			e.Reason += "; the user said yes"
		}
	}
	return e
}

func overBudget(d policy.Decision, a *account) *refusal {
	d.Verdict, d.Reason = policy.Deny, a.say()
	r := denied(d)
	r.what = "limit"
	return r
}

func deniedAddress(d policy.Decision, a netip.Addr) *refusal {
	if d.Verdict == policy.Ask {
		d.Reason = fmt.Sprintf("the name leads to %v, and a yes to a name is not a yes to that address", a)
	}
	d.Verdict = policy.Deny
	r := denied(d)
	r.addr = a
	return r
}

// address is the one that was dialled, if any.
func (c *clearance) address() netip.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dialled
}

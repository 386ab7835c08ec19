package gateway

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/ui"
)

// A Request is a question to the user: may programs inside reach this? What they have
// chosen (Method, Path) must be escaped before a terminal shows it.
type Request struct {
	ID       int             `json:"id"`
	Host     string          `json:"host"` // name, or the address that was meant
	Addr     netip.Addr      `json:"addr,omitzero"`
	Port     uint16          `json:"port"`
	Protocol policy.Protocol `json:"protocol,omitempty"`
	Method   string          `json:"method,omitempty"` // only if the rule that asks looks at requests
	Path     string          `json:"path,omitempty"`
	Rule     string          `json:"rule"`
	Reason   string          `json:"reason"`
	Since    time.Time       `json:"since"`
	Until    time.Time       `json:"until"` // then it counts as no
	Flows    int             `json:"flows"` // how many connections wait
	// Filed: a program asked by http://coffer.internal/ for what the default denies. No
	// connection can wait for the answer, so only one that lasts helps.
	Filed bool `json:"filed,omitempty"`
	// What is asked about, if it is no connection; see [Gateway.Number].
	What string `json:"what,omitempty"`
}

// question is what one answer holds for: a destination, and where the rule looks at
// requests, one kind of request.
type question struct {
	host         string
	addr         netip.Addr
	port         uint16
	udp          bool
	method, path string
}

func questionOf(q policy.Query, d policy.Decision) question {
	k := question{host: q.Host, port: q.Port, udp: q.Protocol == policy.UDP}
	if q.Host == "" {
		k.addr = q.Addr
	}
	if d.Request {
		k.method, k.path = q.Method, q.Path
	}
	return k
}

// The answers that a flow can get.
type reply uint8

const (
	answerNo      reply = iota
	answerYes           // go on
	answerChanged       // the rules have changed: decide again
	answerGone          // nobody waits for an answer any more
)

// maxLater bounds the answers that are remembered for connections to come.
const maxLater = 256

// questions are what the user has been asked and has not answered yet.
type questions struct {
	limits  limits
	timeout time.Duration
	asked   func(Request)

	mu     sync.Mutex
	lastID int
	open   map[question]*pending
	held   int
	recent []time.Time            // when the latest questions were asked
	no     map[question]later     // answered no a moment ago
	yes    map[question]time.Time // answered yes while nobody waited, until when
	closed bool
}

type later struct {
	until time.Time
	why   string
}

// pending is an open question.
type pending struct {
	Request
	query policy.Query
	timer *time.Timer
	reply reply
	why   string
	done  chan struct{} // closed when there is a reply
}

func newQuestions(l limits, timeout time.Duration, asked func(Request)) *questions {
	return &questions{
		limits: l, timeout: timeout, asked: asked, lastID: firstID + rand.IntN(firstID*9),
		open: map[question]*pending{}, no: map[question]later{}, yes: map[question]time.Time{},
	}
}

// filing is how long a question stays open that no connection waits for.
const filing = time.Hour

// firstID is where numbers begin, at the earliest. They begin at another place in every
// gateway, and have gaps: a user who answers one from memory, when it is gone, must not
// answer a question of another sandbox, which may be waiting for just that.
const firstID = 10000

// next is a number that no question has had; the caller holds the lock.
func (a *questions) next() int {
	a.lastID += 1 + rand.IntN(9)
	return a.lastID
}

// put asks a question, or joins those who wait for the same one. Without a question,
// reply and why are the answer.
func (a *questions) put(q policy.Query, d policy.Decision, wait bool) (p *pending, r reply, why string) {
	a.mu.Lock()
	last := a.lastID
	p, r, why = a.join(q, d, wait)
	fresh := Request{}
	if a.lastID != last {
		fresh = p.Request
	}
	a.mu.Unlock()
	if fresh.ID != 0 && a.asked != nil {
		a.asked(fresh)
	}
	return p, r, why
}

// join is put under the lock.
func (a *questions) join(q policy.Query, d policy.Decision, wait bool) (p *pending, r reply, why string) {
	key, now := questionOf(q, d), time.Now()
	if a.closed {
		return nil, answerNo, "the sandbox's network is closed"
	}
	if until, ok := a.yes[key]; ok && wait {
		delete(a.yes, key)
		if now.Before(until) {
			return nil, answerYes, ""
		}
	}
	if l, ok := a.no[key]; ok {
		if now.Before(l.until) {
			return nil, answerNo, l.why
		}
		delete(a.no, key)
	}
	if wait && a.held >= a.limits.held {
		return nil, answerNo, "too many connections wait for an answer already"
	}
	p = a.open[key]
	if p == nil {
		filed := d.Verdict == policy.Deny
		if filed && a.filed() >= a.limits.filed {
			return nil, answerNo, "too many requests for access wait for the user already"
		}
		a.recent = slices.DeleteFunc(a.recent, func(t time.Time) bool { return now.Sub(t) >= time.Minute })
		if len(a.open) >= a.limits.questions || len(a.recent) >= a.limits.perMinute {
			return nil, answerNo, "too many questions were asked already"
		}
		a.recent = append(a.recent, now)
		p = a.ask(key, q, d, now)
	}
	if wait {
		a.held++
		p.Flows++
	}
	return p, answerGone, ""
}

// filed counts the open questions that no connection waits for.
func (a *questions) filed() (n int) {
	for _, p := range a.open {
		if p.Filed {
			n++
		}
	}
	return n
}

// ask opens a question; the caller holds the lock.
func (a *questions) ask(key question, q policy.Query, d policy.Decision, now time.Time) *pending {
	p := &pending{query: q, done: make(chan struct{})}
	p.Request = Request{
		ID: a.next(), Host: q.Host, Addr: key.addr, Port: q.Port, Protocol: q.Protocol,
		Method: clip(key.method), Path: clip(key.path), Rule: d.Rule, Reason: d.Reason,
		Since: now, Filed: d.Verdict == policy.Deny,
	}
	timeout := a.timeout
	if p.Filed {
		timeout = max(timeout, filing)
	}
	p.Until = now.Add(timeout)
	if p.Host == "" {
		p.Host = q.Addr.String()
	}
	p.timer = time.AfterFunc(timeout, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.settle(key, p, answerNo, "the user was asked and did not answer in time")
	})
	a.open[key] = p
	return p
}

// settle closes a question; the caller holds the lock.
func (a *questions) settle(key question, p *pending, r reply, why string) {
	if a.open[key] != p {
		return
	}
	delete(a.open, key)
	p.timer.Stop()
	p.reply, p.why = r, why
	close(p.done)
	switch {
	case r == answerNo && len(a.no) < maxLater:
		a.no[key] = later{time.Now().Add(a.limits.cool), why}
	case r == answerYes && p.Flows == 0 && !p.Filed && len(a.yes) < maxLater:
		a.yes[key] = p.Until
	}
}

// release is for who waited and does not any more.
func (a *questions) release(p *pending) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held--
	p.Flows--
}

// reconsider asks new rules about the open questions. Refusals of before are forgotten.
func (a *questions) reconsider(set *policy.Set) {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.no)
	for key, p := range a.open {
		q := p.query
		q.Now = time.Now()
		d := set.Decide(q)
		if filed := p.Filed && mayFile(d); d.Verdict != policy.Ask && !filed {
			a.settle(key, p, answerChanged, "")
		}
	}
}

// mayFile says whether a program may ask the user for what a decision denies: not if a
// rule denies it, for that is the user's word already.
func mayFile(d policy.Decision) bool { return d.Verdict == policy.Deny && d.Rule == defaultRule }

// close answers every question with no.
func (a *questions) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for key, p := range a.open {
		a.settle(key, p, answerNo, "the sandbox's network was closed")
	}
}

// Pending returns the open questions, the oldest first.
func (g *Gateway) Pending() []Request {
	g.asks.mu.Lock()
	defer g.asks.mu.Unlock()
	list := make([]Request, 0, len(g.asks.open))
	for _, p := range g.asks.open {
		list = append(list, p.Request)
	}
	slices.SortFunc(list, func(a, b Request) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Number gives a number to a question that is not about a connection, and that somebody
// else keeps.
func (g *Gateway) Number() int {
	g.asks.mu.Lock()
	defer g.asks.mu.Unlock()
	return g.asks.next()
}

// Answer answers a question for the connections that wait. If none does any more, a
// yes is good for the next one. An answer that is to last is a change of the policy.
func (g *Gateway) Answer(id int, allow bool) error {
	g.asks.mu.Lock()
	defer g.asks.mu.Unlock()
	for key, p := range g.asks.open {
		if p.ID != id {
			continue
		}
		if allow {
			g.asks.settle(key, p, answerYes, "")
		} else {
			g.asks.settle(key, p, answerNo, "the user was asked and said no")
		}
		return nil
	}
	return ui.Error(fmt.Sprintf("there is no open question %d", id),
		"coffer policy pending lists the open ones; a question that is not answered in time counts as no")
}

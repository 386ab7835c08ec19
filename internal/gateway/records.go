package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/policy"
	"golang.org/x/net/dns/dnsmessage"
)

// Records other than addresses cannot be made up, so they are looked up outside; and
// whoever answers for a domain reads the names below it. Under a rule for *.example.com
// a program chooses those. So each look-up has its line in the log, its name counts as
// sent where the rule has a budget, and there are only so many: enough for tools that
// look for a service or a mail server, and a narrow way out for everybody else.
const (
	recordsAtOnce = 64
	recordsEvery  = 10 * time.Second // one more
	// recordsKey stands for all names of look-ups in a budget: a new name is no new allowance.
	recordsKey = "(names)"
)

var errRecords = errors.New("this look-up is not made")

// pace says how many look-ups may be made now.
type pace struct {
	mu   sync.Mutex
	left int
	last time.Time // when left was last added to
}

func newPace() *pace { return &pace{left: recordsAtOnce, last: time.Now()} }

// take says no if there were too many.
func (p *pace) take(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if more := int(now.Sub(p.last) / recordsEvery); more > 0 {
		p.left = min(recordsAtOnce, p.left+more)
		p.last = p.last.Add(time.Duration(more) * recordsEvery)
	}
	if p.left == 0 {
		return false
	}
	p.left--
	return true
}

// lookup gets records of an allowed name from outside.
func (g *Gateway) lookup(ctx context.Context, name string, kind dnsmessage.Type) ([]dnsmessage.ResourceBody, error) {
	now := time.Now()
	d := g.policy.Load().Name(policy.Query{Host: name, Now: now})
	if d.Verdict != policy.Allow {
		return nil, nil // the user would have to be asked first, or the rules have changed
	}
	account := g.budgets.account(d.Budget, recordsKey)
	e := audit.Event{Kind: audit.KindDNS, Host: clip(name), Protocol: "dns", Verdict: policy.Allow.String(), Rule: d.Rule, Reason: d.Reason}
	switch {
	case account.takeSent(len(name)) < len(name):
		e.Kind, e.Reason = audit.KindLimit, account.say()
	case !g.records.take(now):
		e.Kind, e.Reason = audit.KindLimit, "too many records other than addresses were looked up"
	}
	e.Detail = "records of type " + typeName(kind)
	if e.Kind == audit.KindLimit {
		e.Verdict = policy.Deny.String()
		g.journal.refused(e)
		return nil, errRecords
	}
	e.Sent = int64(len(name))
	g.journal.add(e)
	return g.cfg.Lookup(ctx, name, kind)
}

// typeName is a type as people write it.
func typeName(kind dnsmessage.Type) string {
	switch kind {
	case dnsmessage.TypeTXT:
		return "TXT"
	case dnsmessage.TypeMX:
		return "MX"
	case dnsmessage.TypeNS:
		return "NS"
	case dnsmessage.TypeSRV:
		return "SRV"
	}
	return kind.String()
}

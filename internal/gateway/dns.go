package gateway

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/policy"
	"golang.org/x/net/dns/dnsmessage"
)

const (
	dnsPort     = 53
	dnsTimeout  = 5 * time.Second  // for records that must be looked up outside
	dnsIdle     = 15 * time.Second // between two queries on a connection
	maxDNSConns = 256
	// maxQuery bounds a query. It holds one name of 255 bytes and some options.
	maxQuery = 4 << 10
)

// allowName decides whether a name may be known inside. A name that could only be
// reached after a question is known: the question comes with the connection.
func (g *Gateway) allowName(name string) (bool, string) {
	d := g.policy.Load().Name(policy.Query{Host: name, Now: time.Now()})
	if d.Verdict != policy.Deny {
		return true, ""
	}
	g.cfg.Audit(audit.Event{
		Kind: audit.KindDNS, Host: clip(name), Verdict: policy.Deny.String(), Rule: d.Rule, Reason: d.Reason,
	})
	g.denyName(name, d)
	return false, d.Reason
}

// denyName tells the user of a refused name: for most programs it is the only refusal
// that they ever meet. A name with bytes that no name has is no news.
func (g *Gateway) denyName(name string, d policy.Decision) {
	host, err := policy.Canonical(name)
	if err != nil {
		return
	}
	n := Denial{Time: time.Now(), Host: host, Protocol: "dns", Rule: d.Rule, Reason: d.Reason, Count: 1}
	if d.Rule == defaultRule {
		n.Allow = g.allow(host, 0, "")
	}
	g.denials.addName(n)
}

// answerDatagram answers a query over UDP.
func (g *Gateway) answerDatagram(query []byte, from, to netip.AddrPort) {
	ctx, cancel := context.WithTimeout(g.ctx, dnsTimeout)
	defer cancel()
	if answer := g.resolver.Answer(ctx, query, true); answer != nil {
		_ = g.link.WriteDatagram(answer, to, from)
	}
}

// serveDNS answers queries over TCP, one after the other, on a few connections at once: what
// programs do not read waits in memory.
func (g *Gateway) serveDNS(in link.Flow) {
	if g.resolving.Add(1) > maxDNSConns {
		g.resolving.Add(-1)
		in.Refuse()
		return
	}
	defer g.resolving.Add(-1)
	c, err := in.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	stop := context.AfterFunc(g.ctx, c.Reset)
	defer stop()
	for {
		_ = c.SetDeadline(time.Now().Add(dnsIdle))
		query, err := readQuery(c)
		if err != nil {
			return
		}
		answer := g.answerStream(query)
		if answer == nil {
			c.Reset()
			return
		}
		out := binary.BigEndian.AppendUint16(nil, uint16(len(answer)))
		if _, err := c.Write(append(out, answer...)); err != nil {
			return
		}
	}
}

// readQuery reads a query with its length before it. That length is only a word: memory is
// taken for what has come.
func readQuery(c io.Reader) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	want := int64(binary.BigEndian.Uint16(size[:]))
	if want > maxQuery {
		return nil, errTooLong
	}
	query, err := io.ReadAll(io.LimitReader(c, want))
	if err == nil && int64(len(query)) < want {
		err = io.ErrUnexpectedEOF
	}
	return query, err
}

// answerStream answers a query over TCP in its turn, nil if that does not come.
func (g *Gateway) answerStream(query []byte) []byte {
	ctx, cancel := context.WithTimeout(g.ctx, dnsTimeout)
	defer cancel()
	select {
	case g.queries <- struct{}{}:
		defer func() { <-g.queries }()
		return g.resolver.Answer(ctx, query, false)
	case <-ctx.Done():
		return nil
	}
}

// Look-ups outside leave the sandbox: whoever answers for a domain reads the names below it,
// and under a rule for *.example.com a program chooses those. So there are only so many, their
// names count as sent where the rule has a budget, and those for other records than addresses
// have a line in the log.
const (
	lookupsAtOnce = 64
	lookupsEvery  = 10 * time.Second // one more
	namesAtOnce   = 512              // new names of a pattern that are connected to
	namesEvery    = time.Second
	maxKnown      = 4096 // names that are no longer new
	// lookupsKey stands for all names of look-ups in a budget: a new name is no new allowance.
	lookupsKey = "(names)"
)

var errLookups = errors.New("too many look-ups were made")

// pace says how many look-ups may be made now.
type pace struct {
	mu    sync.Mutex
	burst int
	every time.Duration
	left  int
	last  time.Time // when left was last added to
	known map[string]bool
}

func newPace(burst int, every time.Duration) *pace {
	return &pace{burst: burst, every: every, left: burst, last: time.Now(), known: map[string]bool{}}
}

// take says no if there were too many.
func (p *pace) take(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if more := int(now.Sub(p.last) / p.every); more > 0 {
		p.left = min(p.burst, p.left+more)
		p.last = p.last.Add(time.Duration(more) * p.every)
	}
	if p.left == 0 {
		return false
	}
	p.left--
	return true
}

// mayLookUp charges the look-up of a name that a program has chosen under a rule. It returns
// nil, or why it is not made.
func (g *Gateway) mayLookUp(p *pace, name string, d policy.Decision) *refusal {
	account := g.budgets.account(d.Budget, lookupsKey)
	if account.takeSent(len(name)) < len(name) {
		return overBudget(d, account)
	}
	if !p.take(time.Now()) {
		d.Verdict, d.Reason = policy.Deny, errLookups.Error()
		r := denied(d)
		r.what = "limit"
		return r
	}
	return nil
}

// mayName is mayLookUp for a name that is connected to. It is charged once.
func (g *Gateway) mayName(name string, d policy.Decision) *refusal {
	p := g.names
	p.mu.Lock()
	known := p.known[name]
	p.mu.Unlock()
	if known {
		return nil
	}
	if r := g.mayLookUp(p, name, d); r != nil {
		return r
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) >= maxKnown {
		clear(p.known)
	}
	p.known[name] = true
	return nil
}

// lookup gets other records than addresses of an allowed name from outside.
func (g *Gateway) lookup(ctx context.Context, name string, kind dnsmessage.Type) ([]dnsmessage.ResourceBody, error) {
	d := g.policy.Load().Name(policy.Query{Host: name, Now: time.Now()})
	if d.Verdict != policy.Allow {
		return nil, nil // the user would have to be asked first, or the rules have changed
	}
	e := audit.Event{
		Kind: audit.KindDNS, Host: clip(name), Protocol: "dns", Verdict: policy.Allow.String(), Rule: d.Rule, Reason: d.Reason,
		Detail: "records of type " + strings.TrimPrefix(kind.String(), "Type"),
	}
	if r := g.mayLookUp(g.records, name, d); r != nil {
		e.Kind, e.Verdict, e.Reason = audit.KindLimit, policy.Deny.String(), r.decision.Reason
		g.cfg.Audit(e)
		return nil, errLookups
	}
	e.Sent = int64(len(name))
	g.cfg.Audit(e)
	return g.cfg.Lookup(ctx, name, kind)
}

// lookup asks the host's resolver.
func lookup(ctx context.Context, name string, kind dnsmessage.Type) (out []dnsmessage.ResourceBody, err error) {
	r := net.DefaultResolver
	fqdn := name + "."
	switch kind {
	case dnsmessage.TypeTXT:
		var texts []string
		texts, err = r.LookupTXT(ctx, fqdn)
		for _, t := range texts {
			out = append(out, &dnsmessage.TXTResource{TXT: split(t)})
		}
	case dnsmessage.TypeMX:
		var list []*net.MX
		list, err = r.LookupMX(ctx, fqdn)
		for _, m := range list {
			if n, e := dnsmessage.NewName(m.Host); e == nil {
				out = append(out, &dnsmessage.MXResource{Pref: m.Pref, MX: n})
			}
		}
	case dnsmessage.TypeNS:
		var list []*net.NS
		list, err = r.LookupNS(ctx, fqdn)
		for _, m := range list {
			if n, e := dnsmessage.NewName(m.Host); e == nil {
				out = append(out, &dnsmessage.NSResource{NS: n})
			}
		}
	case dnsmessage.TypeSRV:
		var list []*net.SRV
		_, list, err = r.LookupSRV(ctx, "", "", fqdn)
		for _, m := range list {
			if n, e := dnsmessage.NewName(m.Target); e == nil {
				out = append(out, &dnsmessage.SRVResource{Priority: m.Priority, Weight: m.Weight, Port: m.Port, Target: n})
			}
		}
	}
	var none *net.DNSError
	if errors.As(err, &none) && none.IsNotFound {
		err = nil
	}
	return out, err
}

// split cuts a text into the strings of at most 255 bytes that a record is made of.
func split(t string) []string {
	var parts []string
	for len(t) > 255 {
		parts = append(parts, strings.Clone(t[:255]))
		t = t[255:]
	}
	return append(parts, t)
}

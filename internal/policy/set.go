package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Decide answers a query. Without a Method and Path, a query about HTTP or TLS is one about
// requests that nobody can read: rules about requests deny it and do not allow it.
func (s *Set) Decide(q Query) Decision {
	if refused := q.prepare(); refused != "" {
		return refusal(refused)
	}
	return s.decide(s.unseen(q), false)
}

// Connect is the question before any byte was seen on a TCP connection.
func (s *Set) Connect(q Query) Possible {
	if refused := q.prepare(); refused != "" {
		d := refusal(refused)
		return Possible{Raw: d, TLS: d, HTTP: d}
	}
	var p Possible
	q.Protocol = TCP
	p.Raw = s.decide(q, false)
	q.Protocol = TLS
	p.TLS = s.decide(q, s.Inspects(q))
	q.Protocol = HTTP
	p.HTTP = s.decide(q, q.Method == "" && q.Path == "")
	return p
}

// Address vets the address that is about to be dialled for a query that was allowed:
// whatever the query's host is, the address may be one that nobody meant. Special
// addresses and the host's own, which own recognises, must be named by an allow rule.
// The query's port, protocol and request count for that rule as they do in Decide.
func (s *Set) Address(q Query, a netip.Addr, own func(netip.Addr) bool) Decision {
	q.Host, q.Addr = "", a
	if refused := q.prepare(); refused != "" {
		return refusal(refused)
	}
	a = q.Addr
	v4, translated := embedded(a)
	what, bits := classify(a)
	if own != nil && what != "loopback" && (own(a) || translated && own(v4)) {
		what, bits = "this computer's own", a.BitLen()
	}
	r := request{Query: q}
	for _, c := range s.about(q) {
		named := what != "" && c.target.prefix.Contains(a) && c.target.prefix.Bits() >= bits
		if c.target.kind == inside && (c.rank == rankDeny || named) && c.elsewhere(q) == "" && r.miss(c) == "" {
			d := c.decision
			d.Budget = nil // it was counted for the destination
			return d
		}
	}
	if what != "" {
		return Decision{Rule: "address", Reason: fmt.Sprintf("%v is %s address, and only a rule that names it allows it", a, article(what))}
	}
	return Decision{Verdict: Allow, Rule: "address", Reason: "it is a public address"}
}

func article(what string) string {
	switch what {
	case "this computer's own":
		return "this computer's own"
	case "unspecified", "IPv4 in IPv6":
		return "an " + what
	}
	return "a " + what
}

// refusal is the answer to a query that makes no sense.
func refusal(reason string) Decision {
	return Decision{Verdict: Deny, Rule: "canonical", Reason: reason}
}

// prepare brings a query to its canonical form, or says why it has none. Callers have
// done that already; but if one forgot, a deny rule must hold nevertheless.
func (q *Query) prepare() (refused string) {
	if q.Protocol > HTTP {
		return "the protocol is unknown"
	}
	if q.Protocol == Any {
		q.Protocol = TCP
	}
	if q.Host != "" {
		c, err := NewQuery(q.Host, q.Port)
		if err != nil {
			return err.Error()
		}
		q.Host, q.Addr = c.Host, c.Addr
	}
	if q.Host == "" {
		if !q.Addr.IsValid() {
			return "there is neither a host nor an address"
		}
		q.Addr = q.Addr.Unmap().WithZone("")
	}
	return ""
}

// decide wants a prepared query. If open, the HTTP request is still to come, and the
// answer is the best that any request could get.
func (s *Set) decide(q Query, open bool) Decision {
	r := request{Query: q}
	var best, late, near *clause // late asks about some requests only, near allows others
	var budget, grant *Budget
	exact := false
	for _, c := range s.about(q) {
		switch {
		case c.elsewhere(q) != "":
			continue
		case c.aboutRequests() && open && c.cautious():
			if c.rank == rankAsk && late == nil {
				late = c
			}
			continue
		case c.aboutRequests() && open && c.decision.Verdict == Allow && c.target.kind == everything && s.isBare(q):
			continue // what it allows is taken back
		case c.aboutRequests() && !open && r.miss(c) != "":
			if c.others != "" && near == nil {
				near = c
			}
			continue
		case c.rank == rankDeny:
			return c.decision
		}
		exact = exact || c.target.kind == exactly
		if best == nil {
			best = c
		}
		if c.rank == rankGrant {
			grant = cmp.Or(grant, c.decision.Budget) // what the user grants is the user's word
		} else {
			budget = spend(budget, c.decision.Budget)
		}
	}
	switch {
	case best != nil:
		d := best.decision
		d.Exact, d.Budget = exact, cmp.Or(grant, budget)
		if d = s.bare(q, d, best.target.kind == everything); late == nil || d.Verdict != Deny {
			return d
		}
		return late.decision
	case late != nil && s.bare(q, s.def, true).Verdict == Deny:
		return late.decision
	case near != nil && s.def.Verdict == Deny && (q.Protocol == HTTP || q.Protocol == TLS):
		d := s.def
		d.Reason = near.others
		return d
	}
	return s.bare(q, s.def, true)
}

// bare takes back a yes that is about everything where names are denied, and nothing names the
// host: a denied one may have any address. What a program calls the host there proves nothing.
func (s *Set) bare(q Query, d Decision, everything bool) Decision {
	if !everything || d.Verdict != Allow || !s.isBare(q) {
		return d
	}
	return Decision{Rule: d.Rule, Origin: d.Origin,
		Reason: "some names are denied, and a bare address could be one of theirs; only a rule that names the address allows it"}
}

// isBare reports whether a query is for an address that may be that of a denied name.
func (s *Set) isBare(q Query) bool { return s.denies && q.Host == "" }

// request is what rules about HTTP requests look at.
type request struct {
	Query
	path          readState
	first, second string // readings of the path
}

// Set is compiled layers. It does not change, and may be used from any goroutine.
type Set struct {
	clauses []clause // by rank
	def     Decision
	denies  bool // some clause denies a name
	inner   bool // some clause wants to see requests in TLS
}

// about returns the clauses for the destination of a prepared query, by rank, and within a rank
// first those that say most about it.
func (s *Set) about(q Query) (found []*clause) {
	v4, _ := embedded(q.Addr)
	for i := range s.clauses {
		if c := &s.clauses[i]; c.fit(q, v4) >= 0 {
			found = append(found, c)
		}
	}
	slices.SortStableFunc(found, func(a, b *clause) int { return cmp.Or(cmp.Compare(a.rank, b.rank), b.fit(q, v4)-a.fit(q, v4)) })
	return found
}

// fit is how much a clause says about a destination, -1 if it is about another one. v4 is the
// address that an IPv6 address leads to: what denies it says least.
func (c *clause) fit(q Query, v4 netip.Addr) int {
	const any = 200
	switch t := &c.target; t.kind {
	case everything:
		return any
	case exactly:
		if q.Host == t.host {
			return any + 1 + maxName
		}
	case below:
		if name, ok := strings.CutSuffix(q.Host, t.host); ok && strings.HasSuffix(name, ".") {
			return any + 1 + len(t.host)
		}
	case inside:
		if q.Host == "" && t.prefix.Contains(q.Addr) {
			return any + 1 + t.prefix.Bits()
		}
		if c.rank == rankDeny && t.prefix.Contains(v4) {
			return t.prefix.Bits()
		}
	}
	return -1
}

type readState uint8

const (
	unread readState = iota
	readable
	unreadable
)

// elsewhere says why a clause for the destination is not about the port, protocol or time of a
// query, "" if it is.
func (c *clause) elsewhere(q Query) string {
	switch {
	case c.target.ports != nil && !c.target.ports.covers(portRange{q.Port, q.Port}):
		return fmt.Sprintf("it is for port %s, not %d", c.target.ports, q.Port)
	case !c.protos.has(q.Protocol) && c.protocol == Any && c.aboutRequests():
		return fmt.Sprintf("it is for http and tls, not %s", q.Protocol)
	case !c.protos.has(q.Protocol) && c.protocol == Any:
		return "it is not for udp unless it says so"
	case !c.protos.has(q.Protocol):
		return fmt.Sprintf("it is for %s, not %s", c.protocol, q.Protocol)
	case c.expired(q.Now):
		return "it has expired"
	}
	return ""
}

func (c *clause) expired(now time.Time) bool {
	return !c.expires.IsZero() && !now.IsZero() && !now.Before(c.expires)
}

// cautious: in doubt, the clause matches. An allow clause must not.
func (c *clause) cautious() bool { return c.rank == rankDeny || c.rank == rankAsk }

func (c *clause) wantsMethod(method string) bool {
	if len(c.methods) == 0 || slices.Contains(c.methods, method) {
		return true
	}
	// Methods have a case, but not for every server.
	return c.cautious() && (method == "" || slices.Contains(c.methods, strings.ToUpper(method)))
}

// miss says why a clause is not about the request, "" if it is.
func (r *request) miss(c *clause) string {
	switch {
	case !c.wantsMethod(r.Method):
		return fmt.Sprintf("it is for %s, not %s", strings.Join(c.methods, ", "), quote(r.Method))
	case r.wantsPath(c):
		return ""
	case r.path == unreadable:
		return "servers may disagree about what the path means, so no rule allows it"
	}
	return "it is for other paths"
}

func (r *request) wantsPath(c *clause) bool {
	if len(c.paths) == 0 {
		return true
	}
	if r.path == unread {
		var ok bool
		r.first, r.second, ok = readings(r.Path)
		r.path = unreadable
		if ok {
			r.path = readable
		}
	}
	if r.path == unreadable {
		return c.cautious()
	}
	if c.cautious() {
		return c.wantsReading(r.first) || c.wantsReading(r.second)
	}
	return c.wantsReading(r.first) && c.wantsReading(r.second)
}

func (c *clause) wantsReading(path string) bool {
	return slices.ContainsFunc(c.paths, func(p pathPattern) bool { return p.match(path) })
}

// spend adds the budget of a clause that matches. An allow rule without a budget does
// not lift that of another, and of two the smaller holds.
func spend(had, b *Budget) *Budget {
	if had == nil || b == nil {
		return cmp.Or(had, b)
	}
	both := &Budget{had.Rule, smaller(had.MaxUpload, b.MaxUpload), smaller(had.MaxDownload, b.MaxDownload)}
	if *both != *had && both.MaxUpload == b.MaxUpload && both.MaxDownload == b.MaxDownload {
		return b
	}
	return both
}

// smaller of two bounds, where zero is none.
func smaller(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

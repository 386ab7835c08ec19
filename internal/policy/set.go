package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Decide answers a query. Without a Method and Path, an HTTP query is one about a
// request that nobody can read: rules about requests deny it and do not allow it.
func (s *Set) Decide(q Query) Decision {
	if refused := q.prepare(); refused != "" {
		return refusal(refused)
	}
	return s.decide(q, false)
}

// Connect is the question before any byte was seen on a TCP connection.
func (s *Set) Connect(q Query) Possible {
	if refused := q.prepare(); refused != "" {
		d := refusal(refused)
		return Possible{Raw: d, TLS: d, HTTP: d}
	}
	var p Possible
	q.Protocol, q.Named = TCP, false
	p.Raw = s.decide(q, false)
	q.Protocol, q.Named = TLS, true // it may yet name a host
	p.TLS = s.decide(q, false)
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

	m := matcher{set: s, q: q, best: rankNone}
	m.takeRanges(a, 0, rankDeny)
	if translated {
		m.takeRanges(v4, 0, rankDeny)
	}
	if m.best == rankNone && what != "" {
		m.takeRanges(a, bits, rankAllow)
	}
	switch {
	case m.best != rankNone:
		d := s.clauses[m.clause].decision
		d.Budget = nil // it was counted for the destination
		return d
	case what != "":
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
	if q.Host != "" && !isCanonicalName(q.Host) {
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
	m := matcher{set: s, q: q, open: open, best: rankNone, late: -1, near: -1}
	for b := range (place{s, q.Host, q.Addr}).buckets {
		m.take(b, rankAllow)
	}
	if q.Host == "" && m.best != rankDeny {
		if v4, ok := embedded(q.Addr); ok {
			m.takeRanges(v4, 0, rankDeny)
		}
	}
	return s.bare(q, m.decision(), m.best == rankNone || s.clauses[m.clause].target.kind == everything)
}

// bare takes back a yes that is about everything where names are denied, and nothing names the
// host: a denied one may have any address.
func (s *Set) bare(q Query, d Decision, everything bool) Decision {
	if !everything || d.Verdict != Allow || !s.denies || q.Host != "" || q.Named {
		return d
	}
	return Decision{Rule: d.Rule, Origin: d.Origin,
		Reason: "some names are denied, and a bare address could be one of theirs; only a rule that names the address allows it"}
}

// place is the clauses for one destination.
type place struct {
	set  *Set
	host string // of a prepared query
	addr netip.Addr
}

// buckets goes through them, what says most about the destination first.
func (p place) buckets(yield func(*bucket) bool) {
	s, host := p.set, p.host
	if host == "" {
		r := s.ranges(p.addr)
		for i := r.find(p.addr); i >= 0; i = r[i].parent {
			if !yield(r[i].bucket) {
				return
			}
		}
		yield(&s.all)
		return
	}
	if b, ok := s.exact[host]; ok && !yield(b) {
		return
	}
	if len(s.below) > 0 {
		for dot := strings.IndexByte(host, '.'); dot >= 0; dot = strings.IndexByte(host, '.') {
			host = host[dot+1:]
			if len(host) > s.longest {
				continue
			}
			if b, ok := s.below[host]; ok && !yield(b) {
				return
			}
		}
	}
	yield(&s.all)
}

// matcher collects what the clauses say about a query.
type matcher struct {
	set  *Set
	q    Query // by value: a pointer here would put every query on the heap
	open bool  // the HTTP request is still to come

	best   rank
	clause int32 // that has it
	late   int32 // an ask clause for some requests only, while open; -1 if none
	near   int32 // an allow clause for other requests; -1 if none
	exact  bool  // a clause that does not deny names the host; those come first

	budget, grant *Budget // of ask and allow clauses, of grants

	path          readState
	first, second string // readings of the path
}

type readState uint8

const (
	unread readState = iota
	readable
	unreadable
)

// take looks at the clauses of a bucket up to a rank.
func (m *matcher) take(b *bucket, most rank) {
	port, proto := m.q.Port, m.q.Protocol
	for i := range b.entries {
		e := &b.entries[i]
		if e.rank > most || e.rank >= m.best && (!m.set.budgets || m.best == rankDeny) {
			return // nothing further down can change the answer
		}
		if port < e.ports.lo || port > e.ports.hi || !e.protos.has(proto) {
			continue
		}
		if e.conditional && !m.holds(e) {
			continue
		}
		if e.rank < m.best {
			m.best, m.clause = e.rank, e.clause
			m.exact = m.exact || e.rank != rankDeny && m.set.clauses[e.clause].target.kind == exactly
		}
		if m.set.budgets {
			m.spend(m.set.clauses[e.clause].decision.Budget, e.rank)
		}
	}
}

// takeRanges looks at clauses for addresses around a, of at least some prefix length.
func (m *matcher) takeRanges(a netip.Addr, bits int, most rank) {
	r := m.set.ranges(a)
	for i := r.find(a); i >= 0 && r[i].prefix.Bits() >= bits; i = r[i].parent {
		m.take(r[i].bucket, most)
	}
}

// holds says whether a clause for this destination is also for this time and request.
func (m *matcher) holds(e *entry) bool {
	c := &m.set.clauses[e.clause]
	if c.expired(m.q.Now) {
		return false
	}
	if !c.aboutRequests() {
		return true
	}
	if m.open {
		if e.rank == rankAsk && m.late < 0 {
			m.late = e.clause
		}
		return e.rank == rankGrant || e.rank == rankAllow
	}
	if c.wantsMethod(m.q.Method) && m.wantsPath(c) {
		return true
	}
	if c.others != "" && m.near < 0 {
		m.near = e.clause
	}
	return false
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

func (m *matcher) wantsPath(c *clause) bool {
	if len(c.paths) == 0 {
		return true
	}
	if m.path == unread {
		var ok bool
		m.first, m.second, ok = readings(m.q.Path)
		m.path = unreadable
		if ok {
			m.path = readable
		}
	}
	if m.path == unreadable {
		return c.cautious()
	}
	if c.cautious() {
		return c.wantsReading(m.first) || c.wantsReading(m.second)
	}
	return c.wantsReading(m.first) && c.wantsReading(m.second)
}

func (c *clause) wantsReading(path string) bool {
	for _, p := range c.paths {
		if p.match(path) {
			return true
		}
	}
	return false
}

// spend adds the budget of a clause that matches. An allow rule without a budget does
// not lift that of another, and of two the smaller holds; but what the user grants is
// the user's word.
func (m *matcher) spend(b *Budget, r rank) {
	switch {
	case b == nil:
	case r == rankGrant:
		if m.grant == nil {
			m.grant = b
		}
	case m.budget == nil:
		m.budget = b
	default:
		both := Budget{m.budget.Rule, smaller(m.budget.MaxUpload, b.MaxUpload), smaller(m.budget.MaxDownload, b.MaxDownload)}
		switch {
		case both == *m.budget:
		case both.MaxUpload == b.MaxUpload && both.MaxDownload == b.MaxDownload:
			m.budget = b
		default:
			m.budget = new(Budget)
			*m.budget = both
		}
	}
}

// smaller of two bounds, where zero is none.
func smaller(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

func (m *matcher) decision() Decision {
	switch {
	case m.best != rankNone:
		d := m.set.clauses[m.clause].decision
		d.Exact = m.exact
		if m.set.budgets && m.best != rankDeny {
			if d.Budget = m.grant; d.Budget == nil {
				d.Budget = m.budget
			}
		}
		return d
	case m.late >= 0 && m.set.def.Verdict == Deny:
		return m.set.clauses[m.late].decision
	case m.near >= 0 && m.set.def.Verdict == Deny && m.q.Protocol == HTTP:
		d := m.set.def
		d.Reason = m.set.clauses[m.near].others
		return d
	}
	return m.set.def
}

package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Step is one line of an explanation: a rule that is about the destination, or the
// default.
type Step struct {
	Verdict Verdict `json:"verdict"`
	Rule    string  `json:"rule"`
	Origin  string  `json:"origin,omitempty"`
	Matched bool    `json:"matched"` // false: about this destination, but not about this query
	Decides bool    `json:"decides"`
	Why     string  `json:"why"`
}

// Explain goes through every rule about a destination in the order in which they are
// heard. The one that decides is marked; those that are not about the query's port,
// protocol, request or time say so.
func (s *Set) Explain(q Query) []Step {
	if refused := q.prepare(); refused != "" {
		d := refusal(refused)
		return []Step{{Verdict: d.Verdict, Rule: d.Rule, Matched: true, Decides: true, Why: d.Reason}}
	}
	found := s.about(q)
	slices.SortStableFunc(found, func(a, b int32) int {
		return cmp.Compare(s.clauses[a].rank, s.clauses[b].rank)
	})
	m := matcher{set: s, q: q}
	var steps []Step
	decided := ""
	for _, i := range found {
		c := &s.clauses[i]
		step := Step{Verdict: c.decision.Verdict, Rule: c.decision.Rule, Origin: c.decision.Origin}
		step.Why = m.miss(c)
		if step.Why == "" {
			step.Matched, step.Decides = true, decided == ""
			d := s.bare(q, c.decision, c.target.kind == everything)
			step.Verdict, step.Why = d.Verdict, d.Reason
			if decided != "" {
				step.Why = fmt.Sprintf("rule %q was heard before", decided)
			}
		}
		if step.Decides {
			decided = step.Rule
		}
		steps = append(steps, step)
	}
	d := s.bare(q, s.def, true)
	last := Step{Verdict: d.Verdict, Rule: d.Rule, Origin: d.Origin, Matched: true, Decides: decided == "", Why: d.Reason}
	if decided != "" {
		last.Why = fmt.Sprintf("rule %q was heard before", decided)
	}
	return append(steps, last)
}

// about returns the clauses for a destination, each once.
func (s *Set) about(q Query) []int32 {
	var found []int32
	seen := map[int32]bool{}
	add := func(b *bucket, most rank) {
		for _, e := range b.entries {
			if e.rank <= most && !seen[e.clause] {
				seen[e.clause] = true
				found = append(found, e.clause)
			}
		}
	}
	for b := range (place{s, q.Host, q.Addr}).buckets {
		add(b, rankAllow)
	}
	if q.Host == "" {
		if v4, ok := embedded(q.Addr); ok {
			r := s.ranges(v4)
			for i := r.find(v4); i >= 0; i = r[i].parent {
				add(r[i].bucket, rankDeny)
			}
		}
	}
	return found
}

// miss says why a clause for the query's destination does not match, "" if it does.
func (m *matcher) miss(c *clause) string {
	q := m.q
	switch {
	case c.target.ports != nil && !c.target.ports.covers(portRange{q.Port, q.Port}):
		return fmt.Sprintf("it is for port %s, not %d", c.target.ports, q.Port)
	case !c.protos.has(q.Protocol):
		if c.protocol == Any {
			return "it is not for udp unless it says so"
		}
		return fmt.Sprintf("it is for %s, not %s", c.protocol, q.Protocol)
	case c.expired(q.Now):
		return "it has expired"
	case !c.wantsMethod(q.Method):
		return fmt.Sprintf("it is for %s, not %s", strings.Join(c.methods, ", "), quote(q.Method))
	case !m.wantsPath(c):
		if m.path == unreadable {
			return "servers may disagree about what the path means, so no rule allows it"
		}
		return "it is for other paths"
	}
	return ""
}

// Requests reports whether a rule about a destination looks at requests.
func (s *Set) Requests(q Query) bool {
	if q.prepare() != "" {
		return false
	}
	return slices.ContainsFunc(s.about(q), func(i int32) bool { return s.clauses[i].aboutRequests() })
}

package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
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
	q = s.unseen(q)
	r := request{Query: q}
	var steps []Step
	decided := ""
	add := func(d Decision, why string) {
		step := Step{Verdict: d.Verdict, Rule: d.Rule, Origin: d.Origin, Matched: why == "", Why: why}
		switch {
		case why != "":
		case decided != "":
			step.Why = fmt.Sprintf("rule %q was heard before", decided)
		default:
			step.Decides, step.Why, decided = true, d.Reason, d.Rule
		}
		steps = append(steps, step)
	}
	for _, c := range s.about(q) {
		d, why := c.decision, cmp.Or(c.elsewhere(q), r.miss(c))
		if why == "" {
			d = s.bare(q, d, c.target.kind == everything)
		}
		add(d, why)
	}
	add(s.bare(q, s.def, true), "")
	return steps
}

// Requests reports whether a rule about a destination looks at requests.
func (s *Set) Requests(q Query) bool {
	return q.prepare() == "" && slices.ContainsFunc(s.about(q), (*clause).aboutRequests)
}

// looksInto: the clause wants to see requests in TLS.
func (c *clause) looksInto() bool {
	return c.protos.has(TLS) && (c.inspect || c.aboutRequests())
}

// Inspects reports whether TLS with a destination has to be looked into: a rule wants it, and
// none has it passed on. Where it has not, no rule about requests can allow it.
func (s *Set) Inspects(q Query) (wanted bool) {
	if !s.inner || q.prepare() != "" {
		return false
	}
	q.Protocol = TLS
	for _, c := range s.about(q) {
		switch {
		case c.elsewhere(q) != "":
		case c.pass && c.rank != rankDeny:
			return false
		case c.looksInto():
			wanted = true
		}
	}
	return wanted
}

// unseen takes the request out of a query about TLS that is not looked into.
func (s *Set) unseen(q Query) Query {
	if q.Protocol == TLS && q.Method != "" && !s.Inspects(q) {
		q.Method, q.Path = "", ""
	}
	return q
}

// Shown is a rule of a set, for people to read.
type Shown struct {
	Verdict Verdict   `json:"verdict"`
	Text    string    `json:"text"`           // "allow *.example.com:443 tls"
	Name    string    `json:"name,omitempty"` // if it has one
	Origin  string    `json:"origin,omitempty"`
	Grant   bool      `json:"grant,omitempty"` // allowed by the user while the sandbox runs
	Expires time.Time `json:"expires,omitzero"`
	Budget  *Budget   `json:"budget,omitempty"`
}

// Default is the verdict on what no rule matches.
func (s *Set) Default() Verdict { return s.def.Verdict }

// Rules lists what is in force in the order in which it is heard, a line for each
// target; a group is one line. Rules that have expired are still there.
func (s *Set) Rules() []Shown {
	type key struct {
		*rule
		rank
		group string
	}
	seen := map[key]bool{}
	list := []Shown{}
	for i := range s.clauses {
		c := &s.clauses[i]
		k, d := key{c.rule, c.rank, c.group}, c.decision
		one := Shown{Verdict: d.Verdict, Text: c.text, Origin: d.Origin, Grant: c.rank == rankGrant, Expires: c.expires, Budget: d.Budget}
		if c.group != "" {
			if seen[k] {
				continue
			}
			one.Text = strings.Replace(c.text, " "+c.target.String(), " @"+c.group, 1)
		}
		seen[k] = true
		if d.Rule != c.text && d.Rule != "group "+c.group {
			one.Name = d.Rule
		}
		list = append(list, one)
	}
	return list
}

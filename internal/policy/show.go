package policy

import (
	"strings"
	"time"
)

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

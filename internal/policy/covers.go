package policy

import (
	"slices"
	"strings"
)

// Beyond returns the targets that a rule allows and the set does not already allow as
// they are: to anybody, for any request, without a bound. Rules of the set that deny do
// not count: they would deny all the same. In doubt a target is beyond.
func (s *Set) Beyond(r RuleSource) (beyond []string) {
	if r.Enabled != nil && !*r.Enabled {
		return nil
	}
	var p Protocol
	if p.UnmarshalText([]byte(r.Protocol)) != nil {
		return r.Allow
	}
	for _, text := range r.Allow {
		t, err := ParseTarget(text)
		members := []Target{t}
		if err == nil && t.kind == group {
			members, err = findGroup(t.host)
		}
		for _, m := range members {
			if err != nil || !s.covers(m, p.matches(rankAllow)) {
				beyond = append(beyond, text)
				break
			}
		}
	}
	return beyond
}

// covers says whether a target is allowed without any condition.
func (s *Set) covers(t Target, protos protos) bool {
	// Only addresses have to be named even where everything is allowed.
	if s.def.Verdict == Allow && t.kind != inside && !protos.has(UDP) {
		return true
	}
	for i := range s.clauses {
		c := &s.clauses[i]
		if (c.rank == rankAllow || c.rank == rankGrant) && !c.conditional() && c.budget == nil &&
			c.protos&protos == protos && c.target.covers(t) {
			return true
		}
	}
	return false
}

// covers says whether all that o stands for is in t.
func (t Target) covers(o Target) bool {
	if t.ports != nil && (o.ports == nil || slices.ContainsFunc(o.ports, func(r portRange) bool { return !t.ports.covers(r) })) {
		return false
	}
	switch t.kind {
	case everything:
		return o.kind != inside && o.kind != group
	case exactly:
		return o.kind == exactly && o.host == t.host
	case below:
		return (o.kind == exactly || o.kind == below) && strings.HasSuffix(o.host, "."+t.host) || o.kind == below && o.host == t.host
	case inside:
		return o.kind == inside && t.prefix.Bits() <= o.prefix.Bits() && t.prefix.Contains(o.prefix.Addr())
	}
	return false
}

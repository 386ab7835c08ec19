package policy

import (
	"cmp"
	"slices"
	"strings"
)

// Name is the question of DNS: could anything under this name be reached at all? The
// answer is the best that any port, protocol or request could get (where rules take some
// requests away, it is assumed that others are left); of the query only Host and Now
// count.
func (s *Set) Name(q Query) Decision {
	if refused := q.prepare(); refused != "" {
		return refusal(refused)
	}
	best := Decision{Verdict: Deny}
	for _, p := range []Protocol{TLS, TCP, HTTP, UDP} {
		q.Protocol = p
		d := s.reach(q)
		if d.Verdict == Allow {
			return d
		}
		if best.Rule == "" || d.Verdict > best.Verdict {
			best = d
		}
	}
	return best
}

// reach returns the best that any port could get with the query's protocol. Where a
// clause of higher rank covers all ports of one of lower rank, the latter never speaks.
func (s *Set) reach(q Query) Decision {
	var denied, asked ports // by clauses that no request escapes
	var deny, grant, ask, allow *clause
	for _, c := range s.about(q) { // by rank
		if !c.protos.has(q.Protocol) || c.expired(q.Now) {
			continue
		}
		list := c.target.ports
		if list == nil {
			list = allPorts
		}
		open := func(taken ports) bool {
			return slices.ContainsFunc(list, func(r portRange) bool { return !taken.covers(portRange{max(r.lo, realPorts.lo), r.hi}) })
		}
		switch {
		case c.rank == rankDeny && !c.aboutRequests():
			denied, deny = union(append(denied, list...)), cmp.Or(deny, c)
		case c.rank == rankGrant && open(denied):
			grant = cmp.Or(grant, c)
		case c.rank == rankAsk:
			if open(denied) {
				ask = cmp.Or(ask, c)
			}
			if !c.aboutRequests() {
				asked = append(asked, list...)
			}
		case c.rank == rankAllow && open(union(slices.Concat(denied, asked))):
			allow = cmp.Or(allow, c)
		}
	}
	switch taken := union(slices.Concat(denied, asked)); {
	case grant != nil:
		return grant.decision
	case allow != nil:
		return allow.decision
	case s.def.Verdict == Allow && !taken.covers(realPorts):
		return s.def
	case ask != nil:
		return ask.decision
	case denied.covers(realPorts):
		return deny.decision
	}
	return s.def
}

// TCPPorts are the ports at which some rule allows something that goes by TCP, as ranges
// from the first to the last. With every, there is no port at which nothing is allowed. It
// is for a wall that sees nothing but ports: what the rules say about hosts, requests,
// times and amounts, and what they deny, is lost on it. Nobody is asked, either.
func (s *Set) TCPPorts() (list [][2]uint16, every bool) {
	if s.def.Verdict == Allow {
		return nil, true
	}
	var all []portRange
	for i := range s.clauses {
		c := &s.clauses[i]
		if (c.rank == rankAllow || c.rank == rankGrant) && c.protos&^only(UDP) != 0 {
			if len(c.target.ports) == 0 {
				return nil, true
			}
			all = append(all, c.target.ports...)
		}
	}
	for _, r := range union(all) {
		if r.lo <= realPorts.lo && r.hi == realPorts.hi {
			return nil, true
		}
		list = append(list, [2]uint16{r.lo, r.hi})
	}
	return list, false
}

// Beyond returns the targets that a rule allows and the set does not already allow as
// they are: to anybody, for any request, without a bound. Rules of the set that deny do
// not count: they would deny all the same. In doubt a target is beyond.
func (s *Set) Beyond(r RuleSource) (beyond []string) {
	if r.Enabled != nil && !*r.Enabled {
		return nil
	}
	if r.TLS != "" { // it may keep others from looking
		return slices.Concat(r.Allow, r.Ask)
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

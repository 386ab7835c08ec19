package policy

import (
	"cmp"
	"slices"
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

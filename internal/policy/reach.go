package policy

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
	r := reach{set: s, q: q}
	for b := range (place{s, q.Host, q.Addr}).buckets {
		r.take(b)
	}
	if q.Host == "" {
		if v4, ok := embedded(q.Addr); ok {
			ranges := s.ranges(v4)
			for i := ranges.find(v4); i >= 0; i = ranges[i].parent {
				for _, e := range ranges[i].bucket.entries {
					r.takeDeny(e)
				}
			}
		}
	}
	return r.decision()
}

type reach struct {
	set *Set
	q   Query

	grants, asks, allows []entry
	denied, asked        ports // by clauses that no request escapes
	deny                 int32 // one of them, + 1
}

func (r *reach) take(b *bucket) {
	for _, e := range b.entries {
		c := &r.set.clauses[e.clause]
		if !e.protos.has(r.q.Protocol) || c.expired(r.q.Now) {
			continue
		}
		switch e.rank {
		case rankDeny:
			r.takeDeny(e)
		case rankGrant:
			r.grants = append(r.grants, e)
		case rankAsk:
			r.asks = append(r.asks, e)
			if !c.aboutRequests() {
				r.asked = append(r.asked, e.ports)
			}
		case rankAllow:
			r.allows = append(r.allows, e)
		}
	}
}

func (r *reach) takeDeny(e entry) {
	c := &r.set.clauses[e.clause]
	if e.rank != rankDeny || !e.protos.has(r.q.Protocol) || c.expired(r.q.Now) || c.aboutRequests() {
		return
	}
	r.denied = append(r.denied, e.ports)
	if r.deny == 0 {
		r.deny = e.clause + 1
	}
}

func (r *reach) decision() Decision {
	denied := union(r.denied)
	asked := denied
	if len(r.asked) > 0 {
		asked = union(append(r.asked, denied...))
	}
	def := r.set.def
	if d, ok := r.first(r.grants, denied); ok {
		return d
	}
	if d, ok := r.first(r.allows, asked); ok {
		return d
	}
	if def.Verdict == Allow && !asked.covers(realPorts) {
		return def
	}
	if d, ok := r.first(r.asks, denied); ok {
		return d
	}
	if denied.covers(realPorts) {
		return r.set.clauses[r.deny-1].decision
	}
	return def
}

// first returns the first clause with a port that is not in taken.
func (r *reach) first(list []entry, taken ports) (Decision, bool) {
	for _, e := range list {
		open := portRange{max(e.ports.lo, realPorts.lo), e.ports.hi}
		if !taken.covers(open) {
			return r.set.clauses[e.clause].decision, true
		}
	}
	return Decision{}, false
}

package policy

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

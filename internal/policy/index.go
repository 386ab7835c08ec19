package policy

import (
	"cmp"
	"net/netip"
	"slices"
	"sort"
)

// Set is compiled layers. It does not change, and may be used from any goroutine.
//
// Clauses are found by what they are about, never by going through all of them: by the
// name, by each of its endings, by the ranges around an address.
type Set struct {
	clauses []clause
	def     Decision

	exact buckets[string]
	below buckets[string] // by the part after *.
	all   bucket
	addr4 ranges
	addr6 ranges

	longest int  // key of below
	budgets bool // some clause has one
	denies  bool // some clause denies a name
}

// bucket is the clauses for one key, sorted by rank.
type bucket struct {
	entries []entry
}

// entry is what of a clause is looked at first: small, so that many fit in a cache
// line. A clause has as many as its target has port ranges.
type entry struct {
	ports       portRange
	protos      protos
	rank        rank
	conditional bool
	clause      int32 // index
}

// buckets by key, while they grow.
type buckets[K comparable] map[K]*bucket

func (m buckets[K]) add(key K, e entry) {
	if m[key] == nil {
		m[key] = &bucket{}
	}
	m[key].entries = append(m[key].entries, e)
}

func (s *Set) build(clauses []clause) {
	s.clauses = clauses
	s.exact, s.below = buckets[string]{}, buckets[string]{}
	prefixes := buckets[netip.Prefix]{}
	for i := range clauses {
		c := &clauses[i]
		s.budgets = s.budgets || c.decision.Budget != nil
		list := c.target.ports
		if list == nil {
			list = allPorts
		}
		for _, p := range list {
			e := entry{p, c.protos, c.rank, c.conditional(), int32(i)}
			switch c.target.kind {
			case everything:
				s.all.entries = append(s.all.entries, e)
			case exactly:
				s.denies = s.denies || c.rank == rankDeny
				s.exact.add(c.target.host, e)
			case below:
				s.denies = s.denies || c.rank == rankDeny
				s.below.add(c.target.host, e)
				s.longest = max(s.longest, len(c.target.host))
			case inside:
				prefixes.add(c.target.prefix, e)
			}
		}
	}
	s.all.finish()
	for _, b := range s.exact {
		b.finish()
	}
	for _, b := range s.below {
		b.finish()
	}
	s.addr4, s.addr6 = newRanges(prefixes)
}

func (b *bucket) finish() {
	slices.SortStableFunc(b.entries, func(x, y entry) int { return cmp.Compare(x.rank, y.rank) })
}

// ranges finds the prefixes around an address. Two prefixes are either disjoint or one
// is inside the other, so sorted by where they begin, the smaller after the larger,
// every prefix around an address is the last one that begins at or before it, or one of
// those around that.
type ranges []addrRange

type addrRange struct {
	prefix netip.Prefix
	parent int // the smallest range around this one, -1 if none
	bucket *bucket
}

func newRanges(prefixes buckets[netip.Prefix]) (v4, v6 ranges) {
	for p, b := range prefixes {
		b.finish()
		if p.Addr().Is4() {
			v4 = append(v4, addrRange{p, -1, b})
		} else {
			v6 = append(v6, addrRange{p, -1, b})
		}
	}
	v4.link()
	v6.link()
	return v4, v6
}

func (r ranges) link() {
	slices.SortFunc(r, func(a, b addrRange) int {
		return cmp.Or(a.prefix.Addr().Compare(b.prefix.Addr()), cmp.Compare(a.prefix.Bits(), b.prefix.Bits()))
	})
	for i := 1; i < len(r); i++ {
		p := i - 1
		for p >= 0 && !r[p].prefix.Contains(r[i].prefix.Addr()) {
			p = r[p].parent
		}
		r[i].parent = p
	}
}

// find returns the index of the smallest range around an address, -1 if there is none.
func (r ranges) find(a netip.Addr) int {
	i := sort.Search(len(r), func(i int) bool { return a.Less(r[i].prefix.Addr()) }) - 1
	for i >= 0 && !r[i].prefix.Contains(a) {
		i = r[i].parent
	}
	return i
}

func (s *Set) ranges(a netip.Addr) ranges {
	if a.Is4() {
		return s.addr4
	}
	return s.addr6
}

package dns

import (
	"container/list"
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"sync"

	"github.com/cofferhq/coffer/internal/link"
)

// Default and largest number of names in a Table. The largest leaves half of the IPv4
// range free, so that a free address is never far from where the search for one begins.
const (
	defaultNames = 4096
	maxNames     = 1 << 16
)

// A Table gives names their synthetic addresses, one of each family. A name's addresses
// come from a hash of the name: the same name has the same addresses in every sandbox
// and after every restart, unless another name had taken one before (of a thousand names
// about four meet in IPv4; two never meet in IPv6 unless somebody searches for it).
//
// When the table is full, the name whose turn is longest ago is forgotten. Programs
// inside decide which names they ask for, so the bound is what keeps them from filling
// the memory outside; who floods the table only makes its own names vanish.
//
// A Table may be used from several goroutines at once.
type Table struct {
	mu     sync.Mutex
	max    int
	byName map[string]*list.Element // of *entry
	byAddr map[netip.Addr]*list.Element
	recent list.List // the one that was used last comes first
}

type entry struct {
	name   string
	v4, v6 netip.Addr
}

// NewTable makes a table for at most max names; 0 means 4096.
func NewTable(max int) *Table {
	if max <= 0 {
		max = defaultNames
	}
	return &Table{max: min(max, maxNames), byName: map[string]*list.Element{}, byAddr: map[netip.Addr]*list.Element{}}
}

// Addresses returns the addresses of a name, which has them from then on. The name is
// taken as it is: the caller has made it canonical.
func (t *Table) Addresses(name string) (v4, v6 netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.byName[name]
	if at == nil {
		if len(t.byName) >= t.max {
			old := t.recent.Remove(t.recent.Back()).(*entry)
			delete(t.byName, old.name)
			delete(t.byAddr, old.v4)
			delete(t.byAddr, old.v6)
		}
		h := hash(name)
		e := &entry{name, t.free(h, synthetic4), t.free(h, synthetic6)}
		at = t.recent.PushFront(e)
		t.byName[name], t.byAddr[e.v4], t.byAddr[e.v6] = at, at, at
	}
	t.recent.MoveToFront(at)
	e := at.Value.(*entry)
	return e.v4, e.v6
}

// Name returns the name that has an address. Finding it counts as using the name.
func (t *Table) Name(a netip.Addr) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.byAddr[a.Unmap()]
	if at == nil {
		return "", false
	}
	t.recent.MoveToFront(at)
	return at.Value.(*entry).name, true
}

// free returns the first address of a sequence, one for each number, that no name has.
// The sequence begins at a hash, and every further number is a hash of the one before,
// so that names which meet once do not go on meeting.
func (t *Table) free(h uint64, address func(uint64) netip.Addr) netip.Addr {
	for {
		a := address(h)
		if t.byAddr[a] == nil {
			return a
		}
		h = mix(h + 1)
	}
}

// synthetic4 picks an address from link.Synthetic4, but none of link.Reserved4, with
// which it begins.
func synthetic4(h uint64) netip.Addr {
	all := uint64(1) << (32 - link.Synthetic4.Bits())
	reserved := uint64(1) << (32 - link.Reserved4.Bits())
	b := link.Synthetic4.Addr().As4()
	n := binary.BigEndian.Uint32(b[:]) + uint32(reserved+h%(all-reserved))
	binary.BigEndian.PutUint32(b[:], n)
	return netip.AddrFrom4(b)
}

// synthetic6 picks an address from the /64 that follows link.Reserved6.
func synthetic6(h uint64) netip.Addr {
	b := link.Reserved6.Addr().As16()
	b[7]++
	binary.BigEndian.PutUint64(b[8:], h)
	return netip.AddrFrom16(b)
}

// hash need not withstand anybody: see free.
func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return mix(h.Sum64())
}

// mix is a bijection in which every bit of the result depends on every bit of x.
func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

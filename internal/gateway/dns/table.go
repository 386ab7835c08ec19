package dns

import (
	"encoding/binary"
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
	byName map[string]*entry
	byAddr map[netip.Addr]*entry
	// recent is the root of a ring: recent.next was used last, recent.prev longest ago.
	recent entry
}

type entry struct {
	name       string
	v4, v6     netip.Addr
	next, prev *entry
}

// NewTable makes a table for at most max names; 0 means 4096.
func NewTable(max int) *Table {
	if max <= 0 {
		max = defaultNames
	}
	t := &Table{
		max:    min(max, maxNames),
		byName: map[string]*entry{},
		byAddr: map[netip.Addr]*entry{},
	}
	t.recent.next, t.recent.prev = &t.recent, &t.recent
	return t
}

// Addresses returns the addresses of a name, which has them from then on. The name is
// taken as it is: the caller has made it canonical.
func (t *Table) Addresses(name string) (v4, v6 netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byName[name]; e != nil {
		t.touch(e)
		return e.v4, e.v6
	}
	if len(t.byName) >= t.max {
		t.forget(t.recent.prev)
	}
	h := hash(name)
	e := &entry{name: name, v4: t.free(h, synthetic4), v6: t.free(h, synthetic6)}
	t.byName[name], t.byAddr[e.v4], t.byAddr[e.v6] = e, e, e
	t.push(e)
	return e.v4, e.v6
}

// Name returns the name that has an address. Finding it counts as using the name.
func (t *Table) Name(a netip.Addr) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byAddr[a.Unmap()]
	if e == nil {
		return "", false
	}
	t.touch(e)
	return e.name, true
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

func (t *Table) push(e *entry) {
	e.next, e.prev = t.recent.next, &t.recent
	e.next.prev, e.prev.next = e, e
}

func (t *Table) touch(e *entry) {
	e.next.prev, e.prev.next = e.prev, e.next
	t.push(e)
}

func (t *Table) forget(e *entry) {
	e.next.prev, e.prev.next = e.prev, e.next
	delete(t.byName, e.name)
	delete(t.byAddr, e.v4)
	delete(t.byAddr, e.v6)
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

// hash is FNV-1a, written out because hash/fnv allocates, with its bits spread.
// It need not withstand anybody: see free.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mix(h)
}

// mix is a bijection in which every bit of the result depends on every bit of x.
func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

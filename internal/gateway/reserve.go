package gateway

import (
	"errors"
	"sync/atomic"
)

// What programs inside can make the gateway keep in memory is the host's memory, outside
// of any limit of the sandbox. A connection may keep firstRead bytes of its own; that is
// enough for most heads. Whatever is more comes from a reserve that all share, so
// that it does not matter how many connections there are. Who gets nothing is refused,
// and those with small heads go on.

// A reserve is so many bytes of memory.
type reserve struct{ left atomic.Int64 }

func newReserve(size int64) *reserve {
	r := &reserve{}
	r.left.Store(size)
	return r
}

// take says no if so much is not left.
func (r *reserve) take(n int) bool {
	if r.left.Add(-int64(n)) < 0 {
		r.give(n)
		return false
	}
	return true
}

func (r *reserve) give(n int) { r.left.Add(int64(n)) }

// errFull says that the reserve has nothing left.
var errFull = errors.New("too many bytes of other connections wait for a decision")

// A claim is what one reader holds of a reserve. Without a reserve it is for nothing.
type claim struct {
	reserve *reserve
	held    int
}

// set changes what is held. It says no, and changes nothing, if more is not to be had.
func (c *claim) set(n int) bool {
	switch more := n - c.held; {
	case c.reserve == nil:
		return true
	case more > 0 && !c.reserve.take(more):
		return false
	case more < 0:
		c.reserve.give(-more)
	}
	c.held = n
	return true
}

// buffer sets the claim of a buffer with a capacity, of which the first bytes are free.
func (c *claim) buffer(capacity int) bool { return c.set(max(0, capacity-firstRead)) }

// loans are large buffers, which are only lent as long as there are some.
type loans chan struct{}

// maxLoans is how many connections have a large buffer at once.
const maxLoans = 128

// borrow returns a large buffer, or a small one.
func (l loans) borrow() *[]byte {
	select {
	case l <- struct{}{}:
		return buffers.Get().(*[]byte)
	default:
		b := make([]byte, smallBuffer)
		return &b
	}
}

// giveBack takes what borrow returned.
func (l loans) giveBack(b *[]byte) {
	if len(*b) == largeBuffer {
		buffers.Put(b)
		<-l
	}
}

package packet

import (
	"maps"
	"slices"
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

const (
	// maxConnections includes those that wait for a decision.
	maxConnections = 4096
	// Closed connections that may still be at sending what was written, and how much
	// that may be in all.
	maxDeparting      = 512
	maxDepartingBytes = 32 << 20

	// Buffers of a connection, each way. The first connections may have large ones.
	// The more there are, the less each may take, so that all together stay near
	// allBuffers even if nobody reads: the number that matters when a machine opens
	// all it can and then stalls.
	allBuffers = 64 << 20
	maxBuffer  = 4 << 20
	minBuffer  = 64 << 10
)

// A census counts connections and sizes their buffers.
type census struct {
	stack *stack.Stack

	mu        sync.Mutex
	closed    bool
	open      int
	waiting   map[*flow]struct{} // for a decision
	share     int                // of each connection in allBuffers, as last told to the stack
	departing []departure        // oldest first
	bytes     int                // of all of them
}

// A departure is a connection that has been closed with so much left to send.
type departure struct {
	endpoint tcpip.Endpoint
	bytes    int
}

// enter counts a flow in, if there is room.
func (c *census) enter(f *flow) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.open >= maxConnections {
		return false
	}
	c.open++
	if c.waiting == nil {
		c.waiting = make(map[*flow]struct{})
	}
	c.waiting[f] = struct{}{}
	return true
}

// decided notes that a flow no longer waits. It says whether it did.
func (c *census) decided(f *flow) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.waiting[f]
	delete(c.waiting, f)
	return ok
}

// refuseWaiting lets no further flow in, and refuses those that wait.
func (c *census) refuseWaiting() {
	c.mu.Lock()
	c.closed = true
	waiting := slices.Collect(maps.Keys(c.waiting))
	c.mu.Unlock()
	for _, f := range waiting {
		f.Refuse()
	}
}

// leave counts a connection out.
func (c *census) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	c.limitLocked(share(c.open))
}

// size sizes the buffers of a new connection. They grow from there with its speed.
func (c *census) size(e tcpip.Endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := share(c.open)
	c.limitLocked(s)
	first := int64(min(s, maxBuffer/4))
	e.SocketOptions().SetReceiveBufferSize(first, false)
	e.SocketOptions().SetSendBufferSize(first, false)
}

// share is the part of each of n connections, a power of two so that it changes
// rarely.
func share(n int) int {
	s := maxBuffer
	for s > minBuffer && s*n > allBuffers {
		s /= 2
	}
	return s
}

func (c *census) limit(s int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limitLocked(s)
}

// limitLocked sets how far buffers may grow.
func (c *census) limitLocked(s int) {
	if c.share == s {
		return
	}
	c.share = s
	r := tcpip.TCPReceiveBufferSizeRangeOption{Min: tcp.MinBufferSize, Default: minBuffer, Max: s}
	w := tcpip.TCPSendBufferSizeRangeOption{Min: tcp.MinBufferSize, Default: minBuffer, Max: s}
	c.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &r)
	c.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &w)
}

// depart takes over a closed connection, with at most so many bytes left. It has yet to
// send them, and to hear that they arrived. A machine that never says so would let such
// connections pile up: the oldest are reset when there are too many.
func (c *census) depart(e tcpip.Endpoint, left int) {
	c.mu.Lock()
	c.departing = append(c.departing, departure{e, left})
	c.bytes += left
	over := 0
	for len(c.departing)-over > maxDeparting || c.bytes > maxDepartingBytes {
		c.bytes -= c.departing[over].bytes
		over++
	}
	oldest := slices.Clone(c.departing[:over])
	c.departing = slices.Delete(c.departing, 0, over)
	c.mu.Unlock()
	for _, d := range oldest {
		d.endpoint.Abort() // does nothing to one that has ended
	}
}

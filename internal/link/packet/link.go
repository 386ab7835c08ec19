package packet

import (
	"math"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/cofferhq/coffer/internal/link"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// MTU is the packet size. With packets this large, the cost per packet, which is most of the
// cost of a stack in user space, hardly counts.
const MTU = 65504

// A Link is a link.Link over frames.
type Link struct {
	stack *stack.Stack
	port  *port

	flows     chan *flow
	datagrams chan datagram
	queued    atomic.Int64 // bytes in datagrams

	connections census

	closing sync.Once
	closed  chan struct{}
	done    chan struct{} // Close has done its work
}

var _ link.Link = (*Link)(nil)

// open starts a link on a wire, and owns the wire from then on.
func open(w wire) (*Link, error) {
	l := &Link{
		port:      newPort(w),
		flows:     make(chan *flow, maxWaiting),
		datagrams: make(chan datagram, maxDatagrams),
		closed:    make(chan struct{}),
		done:      make(chan struct{}),
	}
	if err := l.startStack(); err != nil {
		w.close()
		return nil, err
	}
	thrift()
	l.port.start(l.sort, func() { l.Close() })
	return l, nil
}

// memory is what a process with a packet link should make do with: a stack in the process
// keeps what the kernel would keep, and what a burst has used is not left lying about.
const memory = 120 << 20

// thrift has the collector work harder near that, unless the user has set a limit (GOMEMLIMIT).
func thrift() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(memory)
	}
}

// Accept waits for the next TCP connection.
func (l *Link) Accept() (link.Flow, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case f := <-l.flows:
		return f, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends the link. Programs inside get resets for their open connections.
func (l *Link) Close() error {
	l.closing.Do(func() {
		close(l.closed)
		l.connections.refuseWaiting()
		l.stack.Close() // its resets still go out
		l.port.close()
		l.stack.Wait()
		close(l.done)
	})
	<-l.done
	return nil
}

package packet

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/link"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/waiter"
)

// A conn is a connection of the stack that is counted, and can be reset.
type conn struct {
	*gonet.TCPConn
	link     *Link
	endpoint tcpip.Endpoint
	written  atomic.Int64 // bytes
	closing  sync.Once
	closed   atomic.Bool
}

var _ link.Conn = (*conn)(nil)

func newConn(l *Link, q *waiter.Queue, e tcpip.Endpoint) *conn {
	return &conn{TCPConn: gonet.NewTCPConn(q, e), link: l, endpoint: e}
}

func (c *conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := c.TCPConn.Read(b)
	return n, c.cause(err)
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.TCPConn.Write(b)
	c.written.Add(int64(n))
	return n, c.cause(err)
}

// cause makes an error what callers of a net.Conn expect.
func (c *conn) cause(err error) error {
	var op *net.OpError
	if !errors.As(err, &op) {
		return err
	}
	switch {
	case c.closed.Load():
		op.Err = net.ErrClosed
	case op.Timeout():
		op.Err = os.ErrDeadlineExceeded
	case op.Err.Error() == syscall.ECONNRESET.Error(): // gonet keeps the text alone
		op.Err = syscall.ECONNRESET
	}
	return op
}

// Close closes both directions. What was written still goes out.
func (c *conn) Close() error {
	err := error(net.ErrClosed)
	c.closing.Do(func() {
		err = nil
		c.release()
		c.endpoint.Close()
		// The stack does not say how much it has yet to send.
		left := min(c.written.Load(), c.endpoint.SocketOptions().GetSendBufferSize())
		c.link.connections.depart(c.endpoint, int(left))
		c.link.connections.leave()
	})
	return err
}

// Reset ends the connection with a reset, also after Close.
func (c *conn) Reset() {
	first := false
	c.closing.Do(func() {
		first = true
		c.release()
	})
	c.endpoint.Abort()
	if first {
		c.endpoint.Close()
		c.link.connections.leave()
	}
}

// release wakes the calls that wait.
func (c *conn) release() {
	c.closed.Store(true)
	_ = c.SetDeadline(time.Unix(1, 0))
}

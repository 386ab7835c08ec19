package link

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
)

// A packetConn is a connection of the stack that can be reset, with the errors of a net.Conn.
type packetConn struct {
	*gonet.TCPConn
	endpoint tcpip.Endpoint
	closing  sync.Once
	closed   atomic.Bool
}

func (c *packetConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := c.TCPConn.Read(b)
	return n, c.cause(err)
}

func (c *packetConn) Write(b []byte) (int, error) {
	n, err := c.TCPConn.Write(b)
	return n, c.cause(err)
}

// cause makes an error what callers of a net.Conn expect.
func (c *packetConn) cause(err error) error {
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
func (c *packetConn) Close() error {
	err := error(net.ErrClosed)
	c.closing.Do(func() {
		err = nil
		c.release()
		_ = c.endpoint.SetSockOpt(ptr(tcpip.TCPUserTimeoutOption(departTime)))
		c.endpoint.Close()
	})
	return err
}

// Reset ends the connection with a reset, also after Close.
func (c *packetConn) Reset() {
	c.closing.Do(c.release)
	c.endpoint.Abort()
}

// release wakes the calls that wait.
func (c *packetConn) release() {
	c.closed.Store(true)
	_ = c.SetDeadline(time.Unix(1, 0))
}

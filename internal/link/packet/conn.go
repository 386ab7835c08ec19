package packet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/link"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/waiter"
)

// A conn is an endpoint of the stack, with the manners of a net.Conn.
type conn struct {
	link          *Link
	endpoint      tcpip.Endpoint
	queue         *waiter.Queue
	local, remote *net.TCPAddr

	reading, writing side
	written          atomic.Int64 // bytes
	closed           chan struct{}
	closing          sync.Once
}

// A side is one direction of a connection.
type side struct {
	mu       sync.Mutex // one call at a time
	entry    waiter.Entry
	ready    chan struct{} // the endpoint can go on
	deadline deadline
}

var _ link.Conn = (*conn)(nil)

func newConn(f *flow, q *waiter.Queue, e tcpip.Endpoint) *conn {
	c := &conn{
		link:     f.link,
		endpoint: e,
		queue:    q,
		local:    net.TCPAddrFromAddrPort(f.destination),
		remote:   net.TCPAddrFromAddrPort(f.source),
		closed:   make(chan struct{}),
	}
	c.reading.entry, c.reading.ready = waiter.NewChannelEntry(waiter.ReadableEvents | waiter.EventErr | waiter.EventHUp)
	c.writing.entry, c.writing.ready = waiter.NewChannelEntry(waiter.WritableEvents | waiter.EventErr | waiter.EventHUp)
	c.reading.deadline.expired = make(chan struct{})
	c.writing.deadline.expired = make(chan struct{})
	q.EventRegister(&c.reading.entry)
	q.EventRegister(&c.writing.entry)
	return c
}

func (c *conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	c.reading.mu.Lock()
	defer c.reading.mu.Unlock()
	for {
		if c.reading.deadline.over() {
			return 0, c.failed("read", os.ErrDeadlineExceeded)
		}
		w := tcpip.SliceWriter(b)
		r, err := c.endpoint.Read(&w, tcpip.ReadOptions{})
		switch err.(type) {
		case nil:
			// Tells the stack how fast we are, for the size of its buffer.
			c.endpoint.ModerateRecvBuf(r.Count)
			return r.Count, nil
		case *tcpip.ErrWouldBlock:
			c.wait(&c.reading)
		case *tcpip.ErrClosedForReceive:
			if c.isClosed() {
				return 0, c.failed("read", net.ErrClosed)
			}
			return 0, io.EOF
		default:
			return 0, c.failed("read", c.cause(err))
		}
	}
}

func (c *conn) Write(b []byte) (int, error) {
	c.writing.mu.Lock()
	defer c.writing.mu.Unlock()
	r := bytes.NewReader(b)
	for {
		if c.writing.deadline.over() {
			return len(b) - r.Len(), c.failed("write", os.ErrDeadlineExceeded)
		}
		if r.Len() == 0 {
			return len(b), nil
		}
		left := r.Len()
		n, err := c.endpoint.Write(r, tcpip.WriteOptions{})
		c.written.Add(n)
		// The endpoint may have read more than it took.
		r.Reset(b[len(b)-left+int(n):])
		switch err.(type) {
		case nil:
		case *tcpip.ErrWouldBlock:
			c.wait(&c.writing)
		default:
			return len(b) - r.Len(), c.failed("write", c.cause(err))
		}
	}
}

// wait waits until another try of a call makes sense, if only to see why it fails.
func (c *conn) wait(s *side) {
	select {
	case <-s.ready:
	case <-s.deadline.channel():
	case <-c.closed:
	}
}

func (c *conn) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// CloseWrite sends the end of the stream, after all that was written.
func (c *conn) CloseWrite() error {
	if err := c.endpoint.Shutdown(tcpip.ShutdownWrite); err != nil {
		return c.failed("close", c.cause(err))
	}
	return nil
}

// Close closes both directions. What was written still goes out.
func (c *conn) Close() error {
	err := c.failed("close", net.ErrClosed)
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
	close(c.closed)
	c.queue.EventUnregister(&c.reading.entry)
	c.queue.EventUnregister(&c.writing.entry)
	c.reading.deadline.set(time.Time{})
	c.writing.deadline.set(time.Time{})
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	c.reading.deadline.set(t)
	c.writing.deadline.set(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.reading.deadline.set(t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.writing.deadline.set(t)
	return nil
}

func (c *conn) failed(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// cause is what an error of the endpoint means to the caller of a net.Conn.
func (c *conn) cause(err tcpip.Error) error {
	if c.isClosed() {
		return net.ErrClosed
	}
	return errorOf(err)
}

// errorOf translates an error of the stack.
func errorOf(err tcpip.Error) error {
	switch err.(type) {
	case *tcpip.ErrConnectionReset:
		return syscall.ECONNRESET
	case *tcpip.ErrConnectionRefused:
		return syscall.ECONNREFUSED
	case *tcpip.ErrConnectionAborted, *tcpip.ErrAborted:
		return syscall.ECONNABORTED
	case *tcpip.ErrClosedForSend:
		return syscall.EPIPE
	case *tcpip.ErrTimeout:
		return syscall.ETIMEDOUT
	case *tcpip.ErrNotConnected:
		return syscall.ENOTCONN
	}
	return errors.New(err.String())
}

// A deadline closes a channel when it is over.
type deadline struct {
	mu      sync.Mutex
	timer   *time.Timer
	expired chan struct{}
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fired := d.timer != nil && !d.timer.Stop()
	d.timer = nil
	select {
	case <-d.expired:
		fired = true
	default:
	}
	if fired {
		// The old channel is closed, or about to be: it belongs to the old deadline.
		d.expired = make(chan struct{})
	}
	if t.IsZero() {
		return
	}
	expired := d.expired
	if left := time.Until(t); left > 0 {
		d.timer = time.AfterFunc(left, func() { close(expired) })
		return
	}
	close(expired)
}

func (d *deadline) channel() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.expired
}

func (d *deadline) over() bool {
	select {
	case <-d.channel():
		return true
	default:
		return false
	}
}

//go:build !linux

package tcp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"time"
)

// CanSplice says that there are no pipes.
const CanSplice = false

// Conn is a connection.
type Conn struct{ *net.TCPConn }

// Reset closes the connection so that the other side sees an error and not an end.
func (c *Conn) Reset() {
	_ = c.SetLinger(0)
	c.Close()
}

// Dial connects to an address. When the context ends, it does so at once.
func Dial(ctx context.Context, to netip.AddrPort) (*Conn, error) {
	d := net.Dialer{KeepAlive: 30 * time.Second}
	c, err := d.DialTCP(ctx, "tcp", netip.AddrPort{}, to)
	if err != nil {
		return nil, err
	}
	return &Conn{c}, nil
}

// Local and Remote are the addresses of the two ends.
func (c *Conn) Local() netip.AddrPort  { return c.LocalAddr().(*net.TCPAddr).AddrPort() }
func (c *Conn) Remote() netip.AddrPort { return c.RemoteAddr().(*net.TCPAddr).AddrPort() }

// Listener is a socket that connections come to.
type Listener struct{ *net.TCPListener }

// Listen takes over a socket that listens. The file is still the caller's.
func Listen(f *os.File) (*Listener, error) {
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	t, ok := l.(*net.TCPListener)
	if !ok {
		l.Close()
		return nil, errors.New("no TCP socket")
	}
	return &Listener{t}, nil
}

// Accept waits for a connection.
func (l *Listener) Accept() (*Conn, error) {
	c, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	return &Conn{c}, nil
}

// Addr is where it listens.
func (l *Listener) Addr() netip.AddrPort { return l.TCPListener.Addr().(*net.TCPAddr).AddrPort() }

// Take has from write what it has. Here it waits for all of that to be taken.
func (c *Conn) Take(from func(w io.Writer)) (sent int, err error) {
	t := taker{to: c}
	from(&t)
	return t.sent, t.err
}

type taker struct {
	to   *Conn
	sent int
	err  error
}

func (t *taker) Write(b []byte) (int, error) {
	n, err := t.to.Write(b)
	t.sent += n
	if err != nil {
		t.err = err
	}
	return n, err
}

// Pipe cannot be had.
type Pipe struct{}

func NewPipe() (*Pipe, error)               { return nil, errors.ErrUnsupported }
func (*Pipe) Fill(*Conn, int) (int, error)  { return 0, errors.ErrUnsupported }
func (*Pipe) Drain(*Conn, int) (int, error) { return 0, errors.ErrUnsupported }
func (*Pipe) Close()                        {}

package tcp

import (
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Conn is a connection. It is a [net.Conn].
type Conn struct {
	file          *os.File // puts the socket into Go's poller
	raw           syscall.RawConn
	local, remote netip.AddrPort
}

// newConn makes a connection of a socket that does not block, which it then owns.
func newConn(fd int, remote netip.AddrPort) (*Conn, error) {
	c := &Conn{file: os.NewFile(uintptr(fd), "tcp"), remote: remote}
	var err error
	if c.raw, err = c.file.SyscallConn(); err == nil {
		c.local, err = name(fd)
	}
	if err != nil {
		c.file.Close()
		return nil, err
	}
	return c, nil
}

func (c *Conn) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	var failed syscall.Errno
	err = c.raw.Read(func(fd uintptr) bool {
		n, failed = again(unix.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), 0, 0, 0)
		return failed != unix.EAGAIN
	})
	switch {
	case err != nil:
		return 0, waited(err)
	case failed != 0:
		return 0, os.NewSyscallError("read", failed)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func (c *Conn) Write(b []byte) (sent int, err error) {
	var failed syscall.Errno
	err = c.raw.Write(func(fd uintptr) bool {
		for sent < len(b) {
			var n int
			rest := b[sent:]
			n, failed = again(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(rest))), uintptr(len(rest)), unix.MSG_NOSIGNAL, 0, 0)
			if failed != 0 {
				return failed != unix.EAGAIN
			}
			sent += n
		}
		return true
	})
	switch {
	case err != nil:
		return sent, waited(err)
	case failed != 0:
		return sent, os.NewSyscallError("write", failed)
	}
	return sent, nil
}

// Take has from write what it has to the connection, which takes it in the call, and as
// much as it takes without waiting; what it does not take is an error to from. While it takes
// nothing, Take waits and calls from again. It returns when something was taken, or when
// from did not write.
func (c *Conn) Take(from func(w io.Writer)) (sent int, err error) {
	var failed syscall.Errno
	err = c.raw.Write(func(fd uintptr) bool {
		t := taker{fd: fd}
		from(&t)
		sent, failed = t.sent, t.failed
		return sent > 0 || failed != unix.EAGAIN
	})
	switch {
	case err != nil:
		return sent, waited(err)
	case failed != 0 && failed != unix.EAGAIN:
		return sent, os.NewSyscallError("write", failed)
	}
	return sent, nil
}

// taker writes to a socket without waiting.
type taker struct {
	fd     uintptr
	sent   int
	failed syscall.Errno
}

func (t *taker) Write(b []byte) (n int, err error) {
	for n < len(b) && t.failed == 0 {
		var some int
		rest := b[n:]
		some, t.failed = again(unix.SYS_SENDTO, t.fd, uintptr(unsafe.Pointer(unsafe.SliceData(rest))), uintptr(len(rest)), unix.MSG_NOSIGNAL, 0, 0)
		n += some
		t.sent += some
	}
	if t.failed != 0 {
		return n, t.failed
	}
	return n, nil
}

// CloseWrite says that nothing more will be written; reading goes on.
func (c *Conn) CloseWrite() error {
	return c.control("shutdown", func(fd uintptr) (failed syscall.Errno) {
		_, failed = again(unix.SYS_SHUTDOWN, fd, unix.SHUT_WR, 0, 0, 0, 0)
		return failed
	})
}

// Reset closes the connection so that the other side sees an error and not an end.
func (c *Conn) Reset() {
	_ = c.control("setsockopt", func(fd uintptr) syscall.Errno {
		at := unix.Linger{Onoff: 1}
		_, failed := again(unix.SYS_SETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_LINGER, uintptr(unsafe.Pointer(&at)), unsafe.Sizeof(at), 0)
		return failed
	})
	c.Close()
}

func (c *Conn) Close() error {
	if c.file.Close() != nil {
		return net.ErrClosed
	}
	return nil
}

// Local and Remote are the addresses of the two ends.
func (c *Conn) Local() netip.AddrPort  { return c.local }
func (c *Conn) Remote() netip.AddrPort { return c.remote }

func (c *Conn) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(c.local) }
func (c *Conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

func (c *Conn) SetDeadline(t time.Time) error      { return waited(c.file.SetDeadline(t)) }
func (c *Conn) SetReadDeadline(t time.Time) error  { return waited(c.file.SetReadDeadline(t)) }
func (c *Conn) SetWriteDeadline(t time.Time) error { return waited(c.file.SetWriteDeadline(t)) }

func (c *Conn) control(what string, f func(fd uintptr) syscall.Errno) error {
	var failed syscall.Errno
	if err := c.raw.Control(func(fd uintptr) { failed = f(fd) }); err != nil {
		return waited(err)
	}
	if failed != 0 {
		return os.NewSyscallError(what, failed)
	}
	return nil
}

// waited is an error of the poller in the words of package net. There are only two.
func waited(err error) error {
	if err == nil || os.IsTimeout(err) {
		return err
	}
	return net.ErrClosed
}

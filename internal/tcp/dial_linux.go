package tcp

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A peer that is gone without a word is noticed after idle and a number of tries.
const (
	aliveIdle  = 30 // seconds
	aliveEvery = 15
	aliveTries = 9
)

// Dial connects to an address. When the context ends, it does so at once.
func Dial(ctx context.Context, to netip.AddrPort) (*Conn, error) {
	const tries = 3
	for n := 1; ; n++ {
		c, err := dial(ctx, to)
		// Who dials a port of this machine that nobody has can be given that very port for
		// his own end, and is then connected to himself.
		if err != nil || c.local != c.remote {
			return c, err
		}
		c.Close()
		if n == tries {
			return nil, os.NewSyscallError("connect", unix.ECONNREFUSED)
		}
	}
}

func dial(ctx context.Context, to netip.AddrPort) (*Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !to.Addr().IsValid() || to.Addr().Zone() != "" {
		return nil, fmt.Errorf("%s cannot be dialled", to)
	}
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	at, size := toKernel(to)
	fd, failed := again(unix.SYS_SOCKET, uintptr(at.Addr.Family), unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0, 0, 0, 0)
	if failed != 0 {
		return nil, os.NewSyscallError("socket", failed)
	}
	prepare(uintptr(fd))
	connect := func(fd uintptr) syscall.Errno {
		// Once more while it is on its way, it says how far it has come.
		_, failed := again(unix.SYS_CONNECT, fd, uintptr(unsafe.Pointer(at)), size, 0, 0, 0)
		if failed == unix.EISCONN {
			return 0
		}
		return failed
	}
	if failed = connect(uintptr(fd)); failed == unix.EINPROGRESS {
		failed = connect(uintptr(fd))
	}
	if failed != 0 && failed != unix.EALREADY {
		unix.Close(fd)
		return nil, os.NewSyscallError("connect", failed)
	}
	c, err := newConn(fd, to)
	if err == nil && failed == unix.EALREADY {
		err = c.wait(ctx, connect)
	}
	if err != nil {
		if c != nil {
			c.Close()
		}
		return nil, err
	}
	return c, nil
}

// wait waits for a connection to be made.
func (c *Conn) wait(ctx context.Context, connect func(fd uintptr) syscall.Errno) error {
	// A deadline in the past is what wakes the poller. No goroutine waits for this.
	stop := context.AfterFunc(ctx, func() { _ = c.file.SetWriteDeadline(time.Unix(1, 0)) })
	var failed syscall.Errno
	err := c.raw.Write(func(fd uintptr) bool {
		failed = connect(fd)
		return failed != unix.EALREADY
	})
	switch {
	case !stop():
		return ctx.Err()
	case err != nil:
		return waited(err)
	case failed != 0:
		return os.NewSyscallError("connect", failed)
	}
	return nil
}

// prepare sets what every connection has. None of it is needed to connect.
func prepare(fd uintptr) {
	_ = set(fd, unix.SOL_TCP, unix.TCP_NODELAY, 1)
	_ = set(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	_ = set(fd, unix.SOL_TCP, unix.TCP_KEEPIDLE, aliveIdle)
	_ = set(fd, unix.SOL_TCP, unix.TCP_KEEPINTVL, aliveEvery)
	_ = set(fd, unix.SOL_TCP, unix.TCP_KEEPCNT, aliveTries)
}

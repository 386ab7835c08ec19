// Package socket listens on Unix sockets. Package net does so too, but reads a file of
// the kernel's first to learn how many may wait, with a buffer of 64 KiB: a tenth of a
// millisecond of every start.
package socket

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// waiting is how many connections may wait. The kernel takes less if it has less.
const waiting = 4096

// Listen makes a socket at path, which goes when it is closed.
func Listen(path string) (*net.UnixListener, error) {
	syscall.ForkLock.RLock()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, &os.PathError{Op: "bind", Path: path, Err: err}
	}
	if err := unix.Listen(fd, waiting); err != nil {
		return nil, &os.PathError{Op: "listen", Path: path, Err: err}
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	u := l.(*net.UnixListener)
	u.SetUnlinkOnClose(true)
	return u, nil
}

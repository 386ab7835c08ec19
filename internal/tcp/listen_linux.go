package tcp

import (
	"net"
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Listener is a socket that connections come to.
type Listener struct {
	file *os.File
	raw  syscall.RawConn
	at   netip.AddrPort
}

// Listen takes over a socket that listens. The file is still the caller's.
func Listen(f *os.File) (*Listener, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	if e := raw.Control(func(from uintptr) {
		if fd, err = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			err = unix.SetNonblock(fd, true)
		}
	}); e != nil {
		return nil, e
	}
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	l := &Listener{file: os.NewFile(uintptr(fd), "tcp")}
	if l.at, err = name(fd); err == nil {
		l.raw, err = l.file.SyscallConn()
	}
	if err == nil {
		err = set(uintptr(fd), unix.SOL_TCP, unix.TCP_NODELAY, 1) // connections inherit it
	}
	if err != nil {
		l.file.Close()
		return nil, err
	}
	return l, nil
}

// Accept waits for a connection. After Close it returns net.ErrClosed.
func (l *Listener) Accept() (*Conn, error) {
	var fd int
	var from unix.RawSockaddrAny
	var failed syscall.Errno
	err := l.raw.Read(func(s uintptr) bool {
		size := uint32(unsafe.Sizeof(from))
		fd, failed = again(unix.SYS_ACCEPT4, s, uintptr(unsafe.Pointer(&from)), uintptr(unsafe.Pointer(&size)),
			unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0, 0)
		return failed != unix.EAGAIN
	})
	switch {
	case err != nil:
		return nil, waited(err)
	case failed != 0:
		return nil, os.NewSyscallError("accept4", failed)
	}
	return newConn(fd, fromKernel(&from))
}

// Addr is where it listens.
func (l *Listener) Addr() netip.AddrPort { return l.at }

func (l *Listener) Close() error {
	if l.file.Close() != nil {
		return net.ErrClosed
	}
	return nil
}

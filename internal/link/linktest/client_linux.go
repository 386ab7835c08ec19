package linktest

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a test waits for what must happen. It is for tests that fail:
// no test depends on it, and none that passes comes near.
const patience = 2 * time.Minute

// Dial connects to an address from inside the machine.
func (m Machine) Dial(to netip.AddrPort) (*net.TCPConn, error) {
	f, err := m.socket(to)
	if err != nil {
		return nil, err
	}
	return dialOn(f, to)
}

// Dialer is Dial in two steps: what it returns connects a socket that is there already,
// so that it takes no longer than for a program inside.
func (m Machine) Dialer(to netip.AddrPort) (func() (*net.TCPConn, error), error) {
	f, err := m.socket(to)
	if err != nil {
		return nil, err
	}
	return func() (*net.TCPConn, error) { return dialOn(f, to) }, nil
}

func (m Machine) socket(to netip.AddrPort) (*os.File, error) {
	fd, err := m.Inside.Socket(domain(to.Addr()), unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "tcp"), nil
}

func dialOn(f *os.File, to netip.AddrPort) (*net.TCPConn, error) {
	defer f.Close()
	if err := connect(f, to); err != nil {
		return nil, err
	}
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(patience))
	return c.(*net.TCPConn), nil
}

// connect connects a socket that does not block, and waits.
func connect(f *os.File, to netip.AddrPort) error {
	if err := f.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	started := false
	err = raw.Write(func(fd uintptr) bool {
		if !started {
			started = true
			failed = unix.Connect(int(fd), sockaddr(to))
			return failed != unix.EINPROGRESS
		}
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil {
			failed = err
			return true
		}
		if failed = nil; code != 0 {
			failed = syscall.Errno(code)
			return true
		}
		// The poller also wakes for a socket that has only just been added.
		_, err = unix.Getpeername(int(fd))
		return !errors.Is(err, unix.ENOTCONN)
	})
	if err != nil {
		return err
	}
	return failed
}

// packetConn is a socket for datagrams or packets inside the machine, not connected.
func (m Machine) packetConn(t testing.TB, a netip.Addr, kind, protocol int) net.PacketConn {
	t.Helper()
	fd, err := m.Inside.Socket(domain(a), kind, protocol)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "datagrams")
	defer f.Close()
	any := netip.IPv4Unspecified()
	if a.Is6() {
		any = netip.IPv6Unspecified()
	}
	if err := unix.Bind(fd, sockaddr(netip.AddrPortFrom(any, 0))); err != nil { // for LocalAddr
		t.Fatal(err)
	}
	c, err := net.FilePacketConn(f)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { c.Close() })
	return c
}

// connected is a socket for datagrams or packets that is connected to an address, so
// that it hears when they are refused.
func (m Machine) connected(t testing.TB, to netip.AddrPort, kind, protocol int) net.Conn {
	t.Helper()
	fd, err := m.Inside.Socket(domain(to.Addr()), kind, protocol)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "datagrams")
	defer f.Close()
	if err := unix.Connect(fd, sockaddr(to)); err != nil {
		t.Fatalf("connect to %s from inside: %v", to, err)
	}
	c, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { c.Close() })
	return c
}

func domain(a netip.Addr) int {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// addrPort is the address of a net.Addr.
func addrPort(a net.Addr) netip.AddrPort {
	p, _ := netip.ParseAddrPort(a.String())
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

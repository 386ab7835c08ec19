package kernel

import (
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Prepare makes the network of a machine. It is called inside the machine's network
// namespace, with capabilities over it, and returns the sockets to hand out, in the
// order that Open takes them.
func Prepare() ([]*os.File, error) {
	families := []family{ipv4}
	if hasIPv6() {
		families = append(families, ipv6)
	}
	s, err := openSockets(families)
	if err != nil {
		return nil, err
	}
	// The rules come first: where the kernel has none, nothing is left in the way of
	// another kind of link.
	if err = redirect(s, families); err != nil {
		err = fmt.Errorf("set packet rules: %w", err)
	}
	if err == nil {
		err = addDevice()
	}
	if err == nil {
		err = route(families)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// hasIPv6 says whether the kernel has IPv6 at all: some are started without. It asks for
// a socket, and not for a file: the machine's /proc may be on its way meanwhile.
func hasIPv6() bool {
	s, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	unix.Close(s)
	return true
}

// sockets are what the supervisor gets: for every family one that accepts connections,
// one that receives datagrams, and one that sends packets.
type sockets []*os.File

func (s sockets) close() {
	for _, f := range s {
		f.Close()
	}
}

func openSockets(families []family) (sockets, error) {
	var all sockets
	for _, f := range families {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW} {
			fd, err := openSocket(int(f.number), kind)
			if err != nil {
				all.close()
				return nil, fmt.Errorf("open a socket of family %d and type %d: %w", f.number, kind, err)
			}
			all = append(all, os.NewFile(uintptr(fd), "link"))
		}
	}
	return all, nil
}

// backlog is how many connections may wait to be accepted.
const backlog = 4096

// openSocket makes a socket that receives what is meant for any address (stream and
// datagram), or that sends whole packets (raw).
func openSocket(family, kind int) (fd int, err error) {
	protocol := 0
	if kind == unix.SOCK_RAW {
		protocol = unix.IPPROTO_RAW // packets come with their header
	}
	fd, err = unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return -1, err
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	level, transparent, original := unix.SOL_IP, unix.IP_TRANSPARENT, unix.IP_RECVORIGDSTADDR
	var at unix.Sockaddr = &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if family == unix.AF_INET6 {
		level, transparent, original = unix.SOL_IPV6, unix.IPV6_TRANSPARENT, unix.IPV6_RECVORIGDSTADDR
		at = &unix.SockaddrInet6{Addr: netip.IPv6Loopback().As16()}
	}
	if kind == unix.SOCK_RAW {
		if family == unix.AF_INET6 {
			return fd, unix.SetsockoptInt(fd, level, unix.IPV6_HDRINCL, 1)
		}
		return fd, nil
	}
	if err := unix.SetsockoptInt(fd, level, transparent, 1); err != nil {
		return fd, err
	}
	if kind == unix.SOCK_DGRAM {
		if err := unix.SetsockoptInt(fd, level, original, 1); err != nil {
			return fd, err
		}
	}
	if err := unix.Bind(fd, at); err != nil {
		return fd, err
	}
	if kind == unix.SOCK_STREAM {
		return fd, unix.Listen(fd, backlog)
	}
	return fd, nil
}

// port is where a socket listens.
func port(f *os.File) (uint16, error) {
	sa, err := unix.Getsockname(int(f.Fd()))
	if err != nil {
		return 0, err
	}
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return uint16(a.Port), nil
	case *unix.SockaddrInet6:
		return uint16(a.Port), nil
	}
	return 0, fmt.Errorf("socket %s has no port", f.Name())
}

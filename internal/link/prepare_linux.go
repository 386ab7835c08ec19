package link

import (
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// family is what differs between IPv4 and IPv6.
type family struct {
	number              int
	destination         uint32 // offset of the destination address in the header
	icmp, echo          byte   // protocol number of ICMP, and its type for pings
	own                 netip.Addr
	loopback, synthetic netip.Prefix
	listener            netip.Addr
}

var (
	ipv4 = family{unix.AF_INET, 16, unix.IPPROTO_ICMP, 8, Own4,
		netip.MustParsePrefix("127.0.0.0/8"), Synthetic4, netip.MustParseAddr("127.0.0.1")}
	ipv6 = family{unix.AF_INET6, 24, unix.IPPROTO_ICMPV6, 128, Own6,
		netip.MustParsePrefix("::1/128"), Synthetic6, netip.IPv6Loopback()}
)

// Prepare makes the network of a machine. It is called inside the machine's network
// namespace, with capabilities over it, and returns the sockets to hand out, in the
// order that Open takes them.
func Prepare() (files []*os.File, err error) {
	defer func() {
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			files = nil
		}
	}()
	families := []family{ipv4}
	if hasIPv6() {
		families = append(families, ipv6)
	}
	r := &rules{}
	for _, f := range families {
		s, err := f.open()
		files = append(files, s...)
		if err != nil {
			return files, fmt.Errorf("open the link's sockets: %w", err)
		}
		tcp, err := port(s[0])
		if err != nil {
			return files, err
		}
		udp, err := port(s[1])
		if err != nil {
			return files, err
		}
		r.redirect(f, tcp, udp)
	}
	// The rules come first: where the kernel has none, nothing is left in the way of
	// another kind of link.
	if err := r.apply(); err != nil {
		return files, fmt.Errorf("set packet rules: %w", err)
	}
	return files, route(families)
}

// hasIPv6 reports whether the kernel has IPv6. It opens a socket instead of a file,
// because the machine's /proc may not be mounted yet.
func hasIPv6() bool {
	s, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	unix.Close(s)
	return true
}

// open opens the sockets of a family: one that accepts connections, one that receives
// datagrams, and one that sends whole packets. The first two take what is meant for any
// address.
func (f family) open() (files []*os.File, err error) {
	level, transparent, original := unix.SOL_IP, unix.IP_TRANSPARENT, unix.IP_RECVORIGDSTADDR
	whole := unix.IP_HDRINCL
	if f.number == unix.AF_INET6 {
		level, transparent, original = unix.SOL_IPV6, unix.IPV6_TRANSPARENT, unix.IPV6_RECVORIGDSTADDR
		whole = unix.IPV6_HDRINCL
	}
	for _, s := range []struct {
		kind, protocol int
		options        []int
		bind           bool
	}{
		{unix.SOCK_STREAM, 0, []int{transparent}, true},
		{unix.SOCK_DGRAM, 0, []int{transparent, original}, true},
		{unix.SOCK_RAW, unix.IPPROTO_RAW, []int{whole}, false},
	} {
		fd, err := unix.Socket(f.number, s.kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, s.protocol)
		if err != nil {
			return files, err
		}
		files = append(files, os.NewFile(uintptr(fd), "link"))
		for _, o := range s.options {
			if err := unix.SetsockoptInt(fd, level, o, 1); err != nil {
				return files, err
			}
		}
		if s.bind {
			if err := unix.Bind(fd, f.address()); err != nil {
				return files, err
			}
		}
	}
	const backlog = 4096 // connections that may wait to be accepted
	return files, unix.Listen(int(files[0].Fd()), backlog)
}

// address is where the sockets of a family listen, at a port that the kernel chooses.
func (f family) address() unix.Sockaddr {
	if f.number == unix.AF_INET6 {
		return &unix.SockaddrInet6{Addr: f.listener.As16()}
	}
	return &unix.SockaddrInet4{Addr: f.listener.As4()}
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

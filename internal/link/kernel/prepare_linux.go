package kernel

import (
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

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
	at, err := s.listening()
	if err == nil {
		if err = redirect(families, at).send(unix.NETLINK_NETFILTER); err != nil {
			err = fmt.Errorf("set packet rules: %w", err)
		}
	}
	if err == nil {
		err = addDevice()
	}
	if err == nil {
		b := &batch{}
		b.route(families, device)
		err = b.send(unix.NETLINK_ROUTE)
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
		for _, one := range f.sockets(0) {
			fd, err := one.open()
			if err != nil {
				all.close()
				return nil, fmt.Errorf("open a socket of family %d and type %d: %w", one.Family, one.Type, err)
			}
			all = append(all, os.NewFile(uintptr(fd), "link"))
		}
	}
	return all, nil
}

// backlog is how many connections may wait to be accepted.
const backlog = 4096

// A Socket is one that the link is made of, and what is to be done to it.
type Socket struct {
	Family, Type, Protocol int
	On                     [][2]int // options to switch on, by level and name
	Address                []byte   // to bind it to, as the kernel has it; nil if it is not bound
	Backlog                int      // to listen with; 0 if it does not listen
}

// sockets are those of a family: two that receive what is meant for any address, streams
// and datagrams, and one that sends whole packets. They listen at a port, 0 for any.
func (f family) sockets(port uint16) []Socket {
	level, transparent, original, whole := unix.SOL_IP, unix.IP_TRANSPARENT, unix.IP_RECVORIGDSTADDR, [][2]int(nil)
	if f.number == unix.AF_INET6 {
		level, transparent, original = unix.SOL_IPV6, unix.IPV6_TRANSPARENT, unix.IPV6_RECVORIGDSTADDR
		whole = [][2]int{{level, unix.IPV6_HDRINCL}}
	}
	const flags = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	return []Socket{
		{int(f.number), unix.SOCK_STREAM | flags, 0, [][2]int{{level, transparent}}, f.at(port), backlog},
		{int(f.number), unix.SOCK_DGRAM | flags, 0, [][2]int{{level, transparent}, {level, original}}, f.at(port), 0},
		{int(f.number), unix.SOCK_RAW | flags, unix.IPPROTO_RAW, whole, nil, 0}, // packets come with their header
	}
}

// at is a port of the address that the sockets listen at, as the kernel has it.
func (f family) at(port uint16) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(f.number))
	b = binary.BigEndian.AppendUint16(b, port)
	if f.number == unix.AF_INET6 {
		b = append(b, 0, 0, 0, 0) // the flow
		b = append(b, f.listener.AsSlice()...)
		return append(b, 0, 0, 0, 0) // the scope
	}
	return append(append(b, f.listener.AsSlice()...), make([]byte, 8)...)
}

// open makes it.
func (s Socket) open() (fd int, err error) {
	fd, err = unix.Socket(s.Family, s.Type, s.Protocol)
	if err != nil {
		return -1, err
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	for _, o := range s.On {
		if err := unix.SetsockoptInt(fd, o[0], o[1], 1); err != nil {
			return fd, err
		}
	}
	if s.Address != nil {
		_, _, errno := unix.RawSyscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&s.Address[0])), uintptr(len(s.Address)))
		if errno != 0 {
			return fd, errno
		}
	}
	if s.Backlog > 0 {
		return fd, unix.Listen(fd, s.Backlog)
	}
	return fd, nil
}

// listening are the ports that the sockets have got.
func (s sockets) listening() (at []ports, err error) {
	for n := 0; n < len(s); n += 3 {
		tcp, err := port(s[n])
		if err != nil {
			return nil, err
		}
		udp, err := port(s[n+1])
		if err != nil {
			return nil, err
		}
		at = append(at, ports{tcp, udp})
	}
	return at, nil
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

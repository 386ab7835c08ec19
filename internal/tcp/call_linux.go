package tcp

import (
	"encoding/binary"
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// again makes a call that cannot block, without telling Go's scheduler, until no signal
// interrupts it.
//
//go:uintptrescapes
func again(call, fd, a, b, c, d, e uintptr) (int, syscall.Errno) {
	for {
		n, _, failed := unix.RawSyscall6(call, fd, a, b, c, d, e)
		switch {
		case failed == unix.EINTR:
		case failed != 0:
			return 0, failed
		default:
			return int(n), 0
		}
	}
}

// set sets an option of a socket.
func set(fd uintptr, level, option, value int32) error {
	_, failed := again(unix.SYS_SETSOCKOPT, fd, uintptr(level), uintptr(option), uintptr(unsafe.Pointer(&value)), unsafe.Sizeof(value), 0)
	if failed != 0 {
		return os.NewSyscallError("setsockopt", failed)
	}
	return nil
}

// name is the address of a socket's own end.
func name(fd int) (netip.AddrPort, error) {
	var at unix.RawSockaddrAny
	size := uint32(unsafe.Sizeof(at))
	_, failed := again(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&at)), uintptr(unsafe.Pointer(&size)), 0, 0, 0)
	if failed != 0 {
		return netip.AddrPort{}, os.NewSyscallError("getsockname", failed)
	}
	return fromKernel(&at), nil
}

// fromKernel is an address as the kernel gives it; not valid if it is of another family.
func fromKernel(at *unix.RawSockaddrAny) netip.AddrPort {
	switch at.Addr.Family {
	case unix.AF_INET:
		a := (*unix.RawSockaddrInet4)(unsafe.Pointer(at))
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), port(&a.Port))
	case unix.AF_INET6:
		a := (*unix.RawSockaddrInet6)(unsafe.Pointer(at))
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), port(&a.Port))
	}
	return netip.AddrPort{}
}

// toKernel is an address as the kernel takes it, and its size.
func toKernel(to netip.AddrPort) (at *unix.RawSockaddrAny, size uintptr) {
	at = &unix.RawSockaddrAny{}
	if a := to.Addr().Unmap(); a.Is4() {
		out := (*unix.RawSockaddrInet4)(unsafe.Pointer(at))
		out.Family, out.Addr = unix.AF_INET, a.As4()
		binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&out.Port))[:], to.Port())
		return at, unsafe.Sizeof(*out)
	}
	out := (*unix.RawSockaddrInet6)(unsafe.Pointer(at))
	out.Family, out.Addr = unix.AF_INET6, to.Addr().As16()
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&out.Port))[:], to.Port())
	return at, unsafe.Sizeof(*out)
}

func port(p *uint16) uint16 { return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(p))[:]) }

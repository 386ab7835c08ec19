package gateway

import (
	"fmt"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ownAddress says whether an address is the host's: whether the kernel delivers packets to it
// here. That holds for addresses of local routes too, which are on no interface. If it cannot be
// found out, it is.
func ownAddress(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	routes, err := netlink.RouteGetWithOptions(a.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	switch err {
	case nil:
	case unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EACCES, unix.EINVAL: // unreachable, prohibited, blackhole
		return false
	default:
		return true
	}
	for _, r := range routes {
		switch r.Type {
		case unix.RTN_LOCAL, unix.RTN_ANYCAST, unix.RTN_BROADCAST:
			// A route for half of the internet is one to a transparent proxy.
			bits := 0
			if r.Dst != nil {
				bits, _ = r.Dst.Mask.Size()
			}
			if bits >= 8 {
				return true
			}
		}
	}
	return false
}

// portRange is the lower half of the ports that the host connects from, as the kernel wants it.
var portRange = sync.OnceValue(func() int {
	var first, last int
	text, _ := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	fmt.Sscan(string(text), &first, &last)
	return (first+last)/2<<16 | first
})

// halfThePorts leaves the upper half of the ports to the host: those of connections that were
// closed cannot be used again for a minute, and a sandbox may close thousands in that time.
func halfThePorts(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		// Linux 6.3; before, and where it is not known which they are, all ports are used.
		_ = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_LOCAL_PORT_RANGE, portRange())
	})
}

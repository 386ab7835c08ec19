package gateway

import (
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ownAddress says whether an address is the host's: whether the kernel would deliver packets
// to it here. That holds for addresses of local routes too, which are on no interface. If it
// cannot be found out, it is.
func ownAddress(a netip.Addr) bool {
	routes, err := netlink.RouteGet(a.Unmap().WithZone("").AsSlice())
	switch err {
	case nil:
	case unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EACCES, unix.EINVAL: // unreachable, prohibited, blackhole
		return false
	default:
		return true
	}
	for _, r := range routes {
		if r.Type != unix.RTN_UNICAST {
			return true
		}
	}
	return false
}

package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Names of the veth pair: the machine's own interface, and the far side, from which
// all that the machine sends is taken.
const (
	nearName = "eth0"
	farName  = "coffer0"
)

// PreparePackets gives the network namespace of the calling thread its interface, and returns
// the packet socket for OpenPackets. It needs the rights of root over the namespace, as
// the first process in a new user and network namespace has.
//
// Both sides of the veth pair are in the machine's namespace. What keeps the kernel
// there from taking part on the far side is that frames are addressed to ownMAC, which
// that side does not have, and that it has neither addresses nor ARP. A program with
// rights over the namespace can take the wire down, or listen on it, and gains nothing.
func PreparePackets() (*os.File, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("configure the network: %w", err)
	}
	defer h.Close()
	far, err := makePair(h)
	if err != nil {
		return nil, err
	}
	near, err := h.LinkByName(nearName)
	if err != nil {
		return nil, fmt.Errorf("find interface %s: %w", nearName, err)
	}
	if err := configure(h, near); err != nil {
		return nil, err
	}
	return packetSocket(far)
}

// makePair makes the veth pair, of which the far side is up. It returns its index.
func makePair(h *netlink.Handle) (int, error) {
	pair := &netlink.Veth{
		LinkAttrs:        netlink.LinkAttrs{Name: nearName, MTU: mtu, HardwareAddr: machineMAC, TxQLen: -1},
		PeerName:         farName,
		PeerMTU:          mtu,
		PeerHardwareAddr: net.HardwareAddr{0x02, 0x63, 0x6f, 0x66, 0x65, 0x03},
	}
	if err := h.LinkAdd(pair); err != nil {
		return 0, fmt.Errorf("make interface %s: %w", nearName, err)
	}
	far, err := h.LinkByName(farName)
	if err != nil {
		return 0, fmt.Errorf("find interface %s: %w", farName, err)
	}
	if err := silence(h, far); err != nil {
		return 0, err
	}
	if err := h.LinkSetARPOff(far); err != nil {
		return 0, fmt.Errorf("turn off ARP on %s: %w", farName, err)
	}
	if err := h.LinkSetUp(far); err != nil {
		return 0, fmt.Errorf("turn on interface %s: %w", farName, err)
	}
	return far.Attrs().Index, nil
}

// silence keeps the kernel from giving an interface an IPv6 address of its own and
// from announcing it.
func silence(h *netlink.Handle, l netlink.Link) error {
	const none = 1 // IN6_ADDR_GEN_MODE_NONE
	if err := h.LinkSetIP6AddrGenMode(l, none); err != nil && !withoutIPv6(err) {
		return fmt.Errorf("turn off automatic addresses on %s: %w", l.Attrs().Name, err)
	}
	return nil
}

// configure gives an interface the machine's addresses, and the loopback interface
// its own. The routes lead to a neighbour whose Ethernet address is known, so that the
// machine never has to ask for one, and never has more than these two neighbours.
func configure(h *netlink.Handle, near netlink.Link) error {
	if lo, err := h.LinkByName("lo"); err != nil {
		return fmt.Errorf("find the loopback interface: %w", err)
	} else if err := h.LinkSetUp(lo); err != nil {
		return fmt.Errorf("turn on the loopback interface: %w", err)
	}
	if err := silence(h, near); err != nil {
		return err
	}
	// Several datagrams that a program hands over as one are cut by the kernel.
	if err := h.LinkSetGSOMaxSegs(near, 1); err != nil {
		return fmt.Errorf("set up interface %s: %w", near.Attrs().Name, err)
	}
	// Last: the one of a pair that is turned on last works at once, the other one as
	// soon as the kernel gets round to it.
	if err := h.LinkSetUp(near); err != nil {
		return fmt.Errorf("turn on interface %s: %w", near.Attrs().Name, err)
	}
	if err := addFamily(h, near, Own4, Resolver4); err != nil {
		return err
	}
	if err := addFamily(h, near, Own6, Resolver6); err != nil && !withoutIPv6(err) {
		return err
	}
	return nil
}

// family gives an interface one address, and a default route.
func addFamily(h *netlink.Handle, near netlink.Link, own, gateway netip.Addr) error {
	index := near.Attrs().Index
	all := net.CIDRMask(own.BitLen(), own.BitLen())
	a := &netlink.Addr{IPNet: &net.IPNet{IP: own.AsSlice(), Mask: all}}
	if own.Is6() {
		a.Flags = unix.IFA_F_NODAD // nobody else can have it; and it is there at once
	}
	if err := h.AddrAdd(near, a); err != nil {
		return fmt.Errorf("give the machine the address %s: %w", own, err)
	}
	if own.Is6() {
		// The kernel gets round to this later, and drops what comes until then.
		if err := h.RouteAdd(&netlink.Route{
			LinkIndex: index,
			Dst:       a.IPNet,
			Table:     unix.RT_TABLE_LOCAL,
			Type:      unix.RTN_LOCAL,
		}); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("receive for %s: %w", own, err)
		}
	}
	if err := h.NeighAdd(&netlink.Neigh{
		LinkIndex:    index,
		State:        netlink.NUD_PERMANENT,
		IP:           gateway.AsSlice(),
		HardwareAddr: ownMAC,
	}); err != nil {
		return fmt.Errorf("add the neighbour %s: %w", gateway, err)
	}
	everything := &net.IPNet{IP: make(net.IP, own.BitLen()/8), Mask: net.CIDRMask(0, own.BitLen())}
	if err := h.RouteAdd(&netlink.Route{
		LinkIndex: index,
		Dst:       everything,
		Gw:        gateway.AsSlice(),
		Src:       own.AsSlice(),
		Flags:     int(netlink.FLAG_ONLINK),
	}); err != nil {
		return fmt.Errorf("add the route by %s: %w", gateway, err)
	}
	return nil
}

// withoutIPv6 says whether an error comes from a kernel in which IPv6 is turned off.
func withoutIPv6(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EACCES)
}

// packetSocket opens a socket for all that arrives at an interface.
func packetSocket(index int) (*os.File, error) {
	// No protocol yet: it would receive from all interfaces until it is bound.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a packet socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), "packet socket")
	for _, o := range []int{
		// What the kernel itself sends there is not the machine's.
		unix.PACKET_IGNORE_OUTGOING,
		// A new interface drops what it is sent until the kernel gets round to
		// giving it a queue. It needs none.
		unix.PACKET_QDISC_BYPASS,
	} {
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, o, 1); err != nil {
			f.Close()
			return nil, fmt.Errorf("set option %d of the packet socket: %w", o, err)
		}
	}
	all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}); err != nil {
		f.Close()
		return nil, fmt.Errorf("bind the packet socket to %s: %w", farName, err)
	}
	return f, nil
}

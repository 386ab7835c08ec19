package kernel

import (
	"encoding/binary"

	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/link/veth"
	"golang.org/x/sys/unix"
)

// WritePackets writes down the network for a kernel without packet rules: what veth.Prepare
// makes, a pair of interfaces and a packet socket at its far end, which is all there is to
// hand out. It is for packet.NewSocket.
func WritePackets() *Written {
	w := &Written{Late: true}
	all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
	address := make([]byte, unix.SizeofSockaddrLinklayer)
	binary.NativeEndian.PutUint16(address, unix.AF_PACKET)
	binary.NativeEndian.PutUint16(address[2:], all)
	binary.NativeEndian.PutUint32(address[4:], peer)
	w.Sockets = []Socket{{
		Family: unix.AF_PACKET, Type: unix.SOCK_RAW | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK,
		// What they are for is said in package veth.
		On:      [][2]int{{unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING}, {unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS}},
		Address: address,
	}}
	b := &batch{}
	b.pair()
	b.machine(ipv4, link.Resolver4.AsSlice())
	if hasIPv6() {
		b.machine(ipv6, link.Resolver6.AsSlice())
	}
	w.order(unix.NETLINK_ROUTE, b)
	return w
}

// pair makes the two interfaces. The far one, without ARP and addresses, comes up first: the
// last one works at once, the other as soon as the kernel gets round to it.
func (b *batch) pair() {
	b.message(unix.RTM_NEWLINK, 0, "bring up loopback", linkHeader(loopback))
	down := func(index uint32) []byte {
		h := make([]byte, unix.SizeofIfInfomsg)
		binary.NativeEndian.PutUint32(h[4:], index)
		return h
	}
	mtu := binary.NativeEndian.AppendUint32(nil, veth.MTU)
	b.message(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, "make a pair of interfaces", down(device))
	b.text(unix.IFLA_IFNAME, veth.NearName)
	b.attribute(unix.IFLA_MTU, mtu)
	b.attribute(unix.IFLA_ADDRESS, veth.MachineMAC[:])
	b.nest(unix.IFLA_LINKINFO, func() {
		b.text(unix.IFLA_INFO_KIND, "veth")
		b.nest(unix.IFLA_INFO_DATA, func() {
			const infoPeer = 1 // VETH_INFO_PEER
			b.nest(infoPeer, func() {
				b.bytes = append(b.bytes, down(peer)...)
				b.text(unix.IFLA_IFNAME, veth.FarName)
				b.attribute(unix.IFLA_MTU, mtu)
			})
		})
	})
	for _, index := range []uint32{peer, device} {
		// No addresses of the kernel's own making. A kernel without IPv6 makes none.
		b.message(unix.RTM_NEWLINK, 0, "keep an interface silent", down(index))
		b.optional()
		b.nest(unix.IFLA_AF_SPEC, func() {
			b.nest(unix.AF_INET6, func() {
				const mode, none = 8, 1 // IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE
				b.attribute(mode, []byte{none})
			})
		})
		up := linkHeader(index)
		if index == peer {
			binary.NativeEndian.PutUint32(up[8:], unix.IFF_UP|unix.IFF_NOARP)
			binary.NativeEndian.PutUint32(up[12:], unix.IFF_UP|unix.IFF_NOARP)
		}
		b.message(unix.RTM_NEWLINK, 0, "bring up an interface", up)
	}
}

// machine gives the near interface one address, and a way to everything by a neighbour whose
// Ethernet address is known.
func (b *batch) machine(f family, gateway []byte) {
	own, bits := f.own.AsSlice(), byte(f.own.BitLen())
	index := binary.NativeEndian.AppendUint32(nil, device)
	address := make([]byte, unix.SizeofIfAddrmsg)
	address[0], address[1], address[2] = f.number, bits, unix.IFA_F_NODAD
	binary.NativeEndian.PutUint32(address[4:], device)
	b.message(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, "give the machine the address "+f.own.String(), address)
	b.attribute(unix.IFA_LOCAL, own)
	b.attribute(unix.IFA_ADDRESS, own)
	if f.number == unix.AF_INET6 {
		// The kernel gets round to this later, and drops what comes until then.
		local := make([]byte, unix.SizeofRtMsg)
		local[0], local[1], local[4], local[5], local[7] = f.number, bits, unix.RT_TABLE_LOCAL, unix.RTPROT_BOOT, unix.RTN_LOCAL
		b.message(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, "receive for "+f.own.String(), local)
		b.optional()
		b.attribute(unix.RTA_DST, own)
		b.attribute(unix.RTA_OIF, index)
	}
	neighbour := make([]byte, unix.SizeofNdMsg)
	neighbour[0] = f.number
	binary.NativeEndian.PutUint32(neighbour[4:], device)
	binary.NativeEndian.PutUint16(neighbour[8:], unix.NUD_PERMANENT)
	b.message(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_EXCL, "add a neighbour", neighbour)
	b.attribute(unix.NDA_DST, gateway)
	b.attribute(unix.NDA_LLADDR, veth.GatewayMAC[:])
	all := make([]byte, unix.SizeofRtMsg)
	all[0], all[4], all[5], all[7] = f.number, unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RTN_UNICAST
	binary.NativeEndian.PutUint32(all[8:], unix.RTNH_F_ONLINK)
	b.message(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, "route everything to a neighbour", all)
	b.attribute(unix.RTA_GATEWAY, gateway)
	b.attribute(unix.RTA_PREFSRC, own)
	b.attribute(unix.RTA_OIF, index)
}

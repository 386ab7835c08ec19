package main

import (
	"encoding/binary"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// netlink are attempts to change the network that the sandbox has: its routes, its
// interfaces, and the rules that lead to the gateway.
var netlink = map[string]func([]string) error{
	"route":     func([]string) error { return message(unix.NETLINK_ROUTE, addRoute(create)) },
	"unroute":   func([]string) error { return message(unix.NETLINK_ROUTE, removeRoute()) },
	"interface": func([]string) error { return message(unix.NETLINK_ROUTE, addInterface()) },
	"down":      func([]string) error { return message(unix.NETLINK_ROUTE, loopbackDown()) },
	"address":   func([]string) error { return message(unix.NETLINK_ROUTE, addAddress()) },
	"rule":      func([]string) error { return message(unix.NETLINK_ROUTE, addRule()) },
	"flush-nft": func([]string) error { return message(unix.NETLINK_NETFILTER, removeTables()) },
	"ifdown":    interfaceDown,
	"sockopt":   transparent,
	"tun":       openTun,
}

// message sends netlink messages and returns what the kernel says to the last.
func message(protocol int, b []byte) error {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	if err := unix.Sendto(s, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2})
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(s, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.NLMSG_HDRLEN+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return fact("NO-ANSWER")
	}
	return failure(unix.Errno(-int32(binary.NativeEndian.Uint32(answer[unix.NLMSG_HDRLEN:]))))
}

// one is a message with a header of its kind and attributes.
func one(kind, flags uint16, body []byte, attributes ...[]byte) []byte {
	for _, a := range attributes {
		body = append(body, a...)
	}
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, flags|unix.NLM_F_REQUEST)
	return append(append(b, 1, 0, 0, 0, 0, 0, 0, 0), body...)
}

func attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// create makes what may be there already.
const create = unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_REPLACE

// loopbackIndex is the interface's number in every namespace.
var loopbackIndex = []byte{1, 0, 0, 0}

// routeHeader is a struct rtmsg for a local route to an IPv4 host.
func routeHeader() []byte {
	return []byte{unix.AF_INET, 32, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_BOOT, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0}
}

var nobody = net.IPv4(20, 9, 9, 9).To4()

func addRoute(flags uint16) []byte {
	return one(unix.RTM_NEWROUTE, flags, routeHeader(), attribute(unix.RTA_DST, nobody), attribute(unix.RTA_OIF, loopbackIndex))
}

func removeRoute() []byte {
	return append(addRoute(create&^unix.NLM_F_ACK), one(unix.RTM_DELROUTE, unix.NLM_F_ACK, routeHeader(), attribute(unix.RTA_DST, nobody))...)
}

func addInterface() []byte {
	info := attribute(unix.IFLA_INFO_KIND, []byte("veth\x00"))
	return one(unix.RTM_NEWLINK, unix.NLM_F_ACK|unix.NLM_F_CREATE, make([]byte, unix.SizeofIfInfomsg), attribute(unix.IFLA_LINKINFO, info))
}

func loopbackDown() []byte {
	h := make([]byte, unix.SizeofIfInfomsg)
	h[4], h[12] = 1, unix.IFF_UP // change that flag, to nothing
	return one(unix.RTM_NEWLINK, unix.NLM_F_ACK, h)
}

func addAddress() []byte {
	h := []byte{unix.AF_INET, 32, 0, 0, 1, 0, 0, 0}
	return one(unix.RTM_NEWADDR, create, h, attribute(unix.IFA_LOCAL, nobody), attribute(unix.IFA_ADDRESS, nobody))
}

func addRule() []byte {
	h := []byte{unix.AF_INET, 0, 0, 0, unix.RT_TABLE_MAIN, 0, 0, unix.FR_ACT_TO_TBL, 0, 0, 0, 0}
	return one(unix.RTM_NEWRULE, unix.NLM_F_ACK|unix.NLM_F_CREATE, h, attribute(unix.FRA_PRIORITY, []byte{7, 0, 0, 0}))
}

// removeTables makes a table of packet rules, so that there is one, and removes all.
func removeTables() []byte {
	const subsystem = unix.NFNL_SUBSYS_NFTABLES
	batch := []byte{0, 0, 0, subsystem}
	inet := []byte{unix.NFPROTO_INET, 0, 0, 0}
	b := one(unix.NFNL_MSG_BATCH_BEGIN, 0, batch)
	b = append(b, one(subsystem<<8|unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, inet, attribute(unix.NFTA_TABLE_NAME, []byte("coffer\x00")))...)
	b = append(b, one(subsystem<<8|unix.NFT_MSG_DELTABLE, unix.NLM_F_ACK, inet, attribute(unix.NFTA_TABLE_NAME, []byte("coffer\x00")))...)
	return append(b, one(unix.NFNL_MSG_BATCH_END, 0, batch)...)
}

// interfaceDown turns loopback off in the older way.
func interfaceDown([]string) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(0)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, req)
}

// transparent makes a socket like those that take the sandbox's connections.
func transparent([]string) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	return unix.SetsockoptInt(s, unix.SOL_IP, unix.IP_TRANSPARENT, 1)
}

func openTun([]string) error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("probe0")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_TUN)
	return unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
}

func untilInputEnds() error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

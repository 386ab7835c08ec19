package guest

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// The kernel's tables in /proc are slow to read: it goes through a hash of all
// connections of the machine, two milliseconds each, however few the sandbox has. By
// netlink one can ask for sockets that listen alone, in some microseconds. (Where that
// is not to be had, as without the module tcp_diag, /proc is.)

const (
	diagByFamily = 20      // SOCK_DIAG_BY_FAMILY
	diagListen   = 1 << 10 // TCP_LISTEN, as a set
	diagRequest  = 56      // sizeof struct inet_diag_req_v2
	diagMessage  = 72      // sizeof struct inet_diag_msg
	maxMessages  = 256     // reads of one answer
)

// askKernel lists what listens, of one address family.
func askKernel(family uint8) ([]listener, error) {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	defer unix.Close(s)
	// It answers at once, or never.
	if err := unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return nil, err
	}
	q := make([]byte, unix.NLMSG_HDRLEN+diagRequest)
	binary.NativeEndian.PutUint32(q, uint32(len(q)))
	binary.NativeEndian.PutUint16(q[4:], diagByFamily)
	binary.NativeEndian.PutUint16(q[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	body := q[unix.NLMSG_HDRLEN:]
	body[0], body[1] = family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(body[4:], diagListen)
	if err := unix.Sendto(s, q, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	var all []listener
	buf := make([]byte, 32<<10)
	for range maxMessages {
		n, err := unix.Read(s, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		some, done, err := readDiag(buf[:n])
		all = append(all, some...)
		if done || err != nil {
			return all, err
		}
	}
	return all, nil
}

var errDiag = errors.New("not an answer about sockets")

// readDiag reads one answer of the kernel, and says whether it was the last.
func readDiag(b []byte) (all []listener, done bool, err error) {
	messages, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return nil, false, err
	}
	for _, m := range messages {
		switch {
		case m.Header.Type == unix.NLMSG_DONE:
			return all, true, nil
		case m.Header.Type != diagByFamily || len(m.Data) < diagMessage:
			return all, false, errDiag
		}
		d := m.Data
		size := 4
		if d[0] == unix.AF_INET6 {
			size = 16
		}
		addr, _ := netip.AddrFromSlice(d[8 : 8+size])
		l := listener{
			addr: addr.Unmap(), port: binary.BigEndian.Uint16(d[4:]),
			inode: uint64(binary.NativeEndian.Uint32(d[68:])),
		}
		if l.port != 0 {
			all = append(all, l)
		}
	}
	return all, false, nil
}

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
	s, err := diag(unix.NLM_F_DUMP, func(q []byte) {
		q[0] = family
		binary.NativeEndian.PutUint32(q[4:], diagListen)
	})
	if err != nil {
		return nil, err
	}
	defer unix.Close(s)
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

// diag sends a question about TCP sockets. The caller reads the answers, and closes it.
func diag(flags uint16, fill func(q []byte)) (s int, err error) {
	s, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return -1, err
	}
	q := make([]byte, unix.NLMSG_HDRLEN+diagRequest)
	binary.NativeEndian.PutUint32(q, uint32(len(q)))
	binary.NativeEndian.PutUint16(q[4:], diagByFamily)
	binary.NativeEndian.PutUint16(q[6:], unix.NLM_F_REQUEST|flags)
	q[unix.NLMSG_HDRLEN+1] = unix.IPPROTO_TCP
	fill(q[unix.NLMSG_HDRLEN:])
	// It answers at once, or never.
	err = unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1})
	if err == nil {
		err = unix.Sendto(s, q, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	}
	if err != nil {
		unix.Close(s)
		return -1, err
	}
	return s, nil
}

// closed says whether no program has the end of a connection any more that is at from. Who
// has only ended his side has it still. What the kernel does not know, or does not tell, is not:
// the end may be in a network further inside.
func closed(from, to netip.AddrPort) bool {
	s, err := diag(0, func(q []byte) {
		q[0] = unix.AF_INET
		if from.Addr().Is6() {
			q[0] = unix.AF_INET6
		}
		binary.BigEndian.PutUint16(q[8:], from.Port())
		binary.BigEndian.PutUint16(q[10:], to.Port())
		copy(q[12:28], from.Addr().AsSlice())
		copy(q[28:44], to.Addr().AsSlice())
		for i := range q[48:56] { // whichever it is
			q[48+i] = 0xff
		}
	})
	if err != nil {
		return false
	}
	defer unix.Close(s)
	buf := make([]byte, 4<<10)
	n, err := unix.Read(s, buf)
	for err == unix.EINTR {
		n, err = unix.Read(s, buf)
	}
	if err != nil {
		return false
	}
	found, _, err := readDiag(buf[:n])
	return err == nil && len(found) == 1 && found[0].port == from.Port() && found[0].inode == 0
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

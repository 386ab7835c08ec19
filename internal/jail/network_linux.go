package jail

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/cofferhq/coffer/internal/link/kernel"
	"golang.org/x/sys/unix"
)

// A cable is the network of a program in a network namespace of its own: whatever it sends
// comes out of sockets (package link/kernel), which are made in there by the script and
// handed to this process. Nothing else leads out of the namespace.
type cable struct {
	written *kernel.Written
	ours    *os.File                   // the sockets come by this
	theirs  *os.File                   // and go by this
	sockets func() ([]*os.File, error) // which are the link
}

// newCable writes the inner half of a cable into a script.
func (s *script) newCable() (*cable, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	c := &cable{written: kernel.Write(), ours: os.NewFile(uintptr(fds[0]), "cable"), theirs: os.NewFile(uintptr(fds[1]), "cable")}
	s.send(int(c.theirs.Fd()), s.wire(c.written))
	return c, nil
}

// whatNetwork is what all calls about the network are for: each may fail on some host.
const whatNetwork = "give the program a network"

// wire makes the sockets and gives the kernel its orders.
func (s *script) wire(w *kernel.Written) (made []*systemCall) {
	on := data(s, new(int32(1)))
	set := func(fd slot, level, name int) {
		s.call(whatNetwork, unix.SYS_SETSOCKOPT, 0, uintptr(level), uintptr(name), on, 4).with(0, fd)
	}
	var at []int
	open := func(family, kind, protocol int) slot {
		at = append(at, len(s.calls))
		return s.result(s.call(whatNetwork, unix.SYS_SOCKET, uintptr(family), uintptr(kind), uintptr(protocol)))
	}
	for _, one := range w.Sockets {
		fd := open(one.Family, one.Type, one.Protocol)
		for _, o := range one.On {
			set(fd, o[0], o[1])
		}
		if one.Address != nil {
			s.call(whatNetwork, unix.SYS_BIND, 0, s.bytes(one.Address), uintptr(len(one.Address))).with(0, fd)
		}
		if one.Backlog > 0 {
			s.call(whatNetwork, unix.SYS_LISTEN, 0, uintptr(one.Backlog)).with(0, fd)
		}
	}
	to := data(s, &unix.RawSockaddrNetlink{Family: unix.AF_NETLINK})
	for _, o := range w.Orders {
		fd := open(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, o.Protocol)
		set(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK)
		s.call(whatNetwork, unix.SYS_SENDTO, 0, s.bytes(o.Bytes), uintptr(len(o.Bytes)), 0, to, unix.SizeofSockaddrNetlink).with(0, fd)
	}
	for _, i := range at {
		made = append(made, &s.calls[i])
	}
	return made
}

// send hands the descriptors that some calls return to whoever reads at the other end.
func (s *script) send(to int, made []*systemCall) {
	control := make([]byte, unix.CmsgSpace(4*len(made)))
	head := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
	head.Level, head.Type = unix.SOL_SOCKET, unix.SCM_RIGHTS
	head.SetLen(unix.CmsgLen(4 * len(made)))
	for i, c := range made {
		c.point = (*int32)(unsafe.Pointer(&control[unix.CmsgLen(0)+4*i]))
	}
	iov := &unix.Iovec{Base: &[]byte{0}[0]}
	iov.SetLen(1)
	m := &unix.Msghdr{Iov: iov, Control: &control[0]}
	m.SetIovlen(1)
	m.SetControllen(len(control))
	s.call(whatNetwork, unix.SYS_SENDMSG, uintptr(to), data(s, m), unix.MSG_NOSIGNAL)
}

// bytes are some that a call points to.
func (s *script) bytes(b []byte) uintptr {
	s.keep = append(s.keep, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

// listen begins to wait for the sockets, when the script has been started.
func (c *cable) listen() {
	c.theirs.Close()
	c.sockets = later(c.receive)
}

// close is for a cable that nobody waits for any more.
func (c *cable) close() {
	c.theirs.Close()
	c.ours.Close()
}

// receive takes the sockets, and hears what the kernel had to say to the orders.
func (c *cable) receive() ([]*os.File, error) {
	defer c.ours.Close()
	want := len(c.written.Sockets) + len(c.written.Orders)
	control := make([]byte, unix.CmsgSpace(4*want))
	_, n, _, _, err := unix.Recvmsg(int(c.ours.Fd()), make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("take over the network: %w", err)
	}
	var files []*os.File
	messages, err := unix.ParseSocketControlMessage(control[:n])
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i])
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "link"))
		}
	}
	shut := func(files []*os.File) {
		for _, f := range files {
			f.Close()
		}
	}
	if err != nil || len(files) != want {
		shut(files)
		return nil, errors.Join(fmt.Errorf("take over the network: %d sockets instead of %d", len(files), want), err)
	}
	sockets, orders := files[:len(c.written.Sockets)], files[len(c.written.Sockets):]
	defer shut(orders)
	if err := c.written.Check(orders); err != nil {
		shut(sockets)
		return nil, err
	}
	return sockets, nil
}

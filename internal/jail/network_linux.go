package jail

import (
	"os"
	"slices"
	"strconv"
	"unsafe"

	"github.com/cofferhq/coffer/internal/link/kernel"
	"github.com/cofferhq/coffer/internal/steps"
	"golang.org/x/sys/unix"
)

// wire writes down the network of a program in a network namespace of its own: whatever it
// sends comes out of sockets (package link/kernel), which are made in there and handed to
// this process. Nothing else leads out of the namespace. It returns the numbers of the
// calls that make what is to be handed out, the sockets first, and then those by which
// the kernel was given its orders.
func (s *script) wire(w *kernel.Written) (made []int) {
	on := steps.Data(s.List, new(int32(1)))
	set := func(fd steps.Slot, level, name int) {
		s.Call(whatNetwork, unix.SYS_SETSOCKOPT, 0, uintptr(level), uintptr(name), on, 4).With(0, fd)
	}
	open := func(family, kind, protocol int) steps.Slot {
		made = append(made, s.Len())
		return s.Result(s.Call(whatNetwork, unix.SYS_SOCKET, uintptr(family), uintptr(kind), uintptr(protocol)))
	}
	sockets := func() {
		for _, one := range w.Sockets {
			fd := open(one.Family, one.Type, one.Protocol)
			for _, o := range one.On {
				set(fd, o[0], o[1])
			}
			if one.Address != nil {
				s.Call(whatNetwork, unix.SYS_BIND, 0, s.Bytes(one.Address), uintptr(len(one.Address))).With(0, fd)
			}
			if one.Backlog > 0 {
				s.Call(whatNetwork, unix.SYS_LISTEN, 0, uintptr(one.Backlog)).With(0, fd)
			}
		}
	}
	orders := func() {
		to := steps.Data(s.List, &unix.RawSockaddrNetlink{Family: unix.AF_NETLINK})
		for _, o := range w.Orders {
			fd := open(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, o.Protocol)
			set(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK)
			s.Call(whatNetwork, unix.SYS_SENDTO, 0, s.Bytes(o.Bytes), uintptr(len(o.Bytes)), 0, to, unix.SizeofSockaddrNetlink).With(0, fd)
		}
	}
	if !w.Late {
		sockets()
		orders()
		return made
	}
	orders()
	sockets()
	// The sockets are handed out first all the same.
	return slices.Concat(made[len(w.Orders):], made[:len(w.Orders)])
}

// letPing lets the program ping: in a new network namespace nobody may, at first. Who gets an answer
// is decided by packet rules. A kernel that does not have it is no reason to do without a network.
func (s *script) letPing() {
	here, group := int64(unix.AT_FDCWD), strconv.Itoa(os.Getegid())
	open := s.Call("let the program ping", unix.SYS_OPENAT, uintptr(here), s.Text("/proc/sys/net/ipv4/ping_group_range"), unix.O_WRONLY|unix.O_CLOEXEC).Forgive(2)
	open.Anyway = true
	fd := s.Result(open)
	s.Call("let the program ping", unix.SYS_WRITE, 0, s.Text(group+" "+group), uintptr(2*len(group)+1)).With(0, fd).Anyway = true
	s.Call("let the program ping", unix.SYS_CLOSE).With(0, fd).Anyway = true
}

// send hands the descriptors that some calls return to whoever reads at the other end.
func (s *script) send(to int, made []int) {
	control := make([]byte, unix.CmsgSpace(4*len(made)))
	head := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
	head.Level, head.Type = unix.SOL_SOCKET, unix.SCM_RIGHTS
	head.SetLen(unix.CmsgLen(4 * len(made)))
	for i, n := range made {
		s.At(n).Point = (*int32)(unsafe.Pointer(&control[unix.CmsgLen(0)+4*i]))
	}
	iov := &unix.Iovec{Base: &[]byte{0}[0]}
	iov.SetLen(1)
	m := &unix.Msghdr{Iov: iov, Control: &control[0]}
	m.SetIovlen(1)
	m.SetControllen(len(control))
	s.Call(whatNetwork, unix.SYS_SENDMSG, uintptr(to), steps.Data(s.List, m), unix.MSG_NOSIGNAL)
}

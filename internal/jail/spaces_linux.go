package jail

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cofferhq/coffer/internal/jail/ahead"
	"github.com/cofferhq/coffer/internal/link/kernel"
	"github.com/cofferhq/coffer/internal/steps"
	"golang.org/x/sys/unix"
)

// Spaces are the namespaces of a jail, all but that of its mounts, and the process that
// makes them. That takes the kernel a millisecond, most of it for the network, so that
// process is started first of all (see package ahead), and this one finds out meanwhile
// what the program may see. The process that becomes the program enters them later.
//
// Whoever made a process namespace is the first in it. The program would have to reap
// orphans there and would be deaf to most signals. So the maker stays, and does nothing.
type spaces struct {
	maker   *ahead.Maker
	alone   bool // there is a process namespace, and the maker is its first
	doors   []door
	sockets []int // what the network comes out of, if it has rules

	kinds   []uintptr // of the namespaces, in the order of the doors
	written *kernel.Written
	refuse  bool // as a kernel without packet rules does
}

// A door is a namespace to enter.
type door struct {
	flag uintptr
	file int
}

// beginSpaces has them made: with a process namespace, if processes are to be apart, and
// with a network namespace, if the jail is to have one.
func (j *jail) beginSpaces(processes bool) (*spaces, error) {
	m, err := ahead.Take(ahead.Wanted{Network: j.apart, Processes: processes})
	if err != nil {
		return nil, j.explain(err, nil)
	}
	s := &script{m.List}
	sp := &spaces{maker: m, alone: processes, refuse: j.ruleless}
	var names []string
	add := func(name string, kind uintptr) { names, sp.kinds = append(names, name), append(sp.kinds, kind) }
	if m.User {
		add("user", unix.CLONE_NEWUSER) // the first: who enters it has power over the others
	}
	add("ipc", unix.CLONE_NEWIPC)
	if processes {
		add("pid", unix.CLONE_NEWPID)
	}
	var made []int
	if j.apart {
		add("net", unix.CLONE_NEWNET)
		if j.Net == NetNone {
			s.loopback()
		} else {
			sp.written = kernel.Write()
			if j.packets {
				sp.written = kernel.WritePackets()
			}
			made = s.wire(sp.written)
			s.letPing()
		}
	}
	for _, name := range names {
		made = append(made, s.door(name))
	}
	s.send(m.LineFD, made)
	s.Act("stay", steps.Stay)
	if err := m.Go(); err != nil {
		return nil, j.explain(err, nil)
	}
	return sp, nil
}

// finishSpaces waits until they are made.
func (j *jail) finishSpaces(sp *spaces) error {
	err := sp.receive()
	if err != nil {
		sp.end(true)
	}
	return j.explain(err, sp.maker.What(sp.maker.Entered))
}

// door opens one of the process's own namespaces, for others to enter, and returns the
// number of the call.
func (s *script) door(name string) int {
	here := int64(unix.AT_FDCWD)
	s.Call(whatSpaces, unix.SYS_OPENAT, uintptr(here), s.Text("/proc/self/ns/"+name), unix.O_RDONLY|unix.O_CLOEXEC)
	return s.Len() - 1
}

func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket"), nil
}

// receive takes what the process hands out, and hears what the kernel had to say to the
// orders about the network.
func (sp *spaces) receive() error {
	var sockets, orders int
	if sp.written != nil {
		sockets, orders = len(sp.written.Sockets), len(sp.written.Orders)
	}
	files, err := (&script{sp.maker.List}).receive(sp.maker.Line, sockets+orders+len(sp.kinds))
	if err != nil {
		return err
	}
	sp.sockets = files[:sockets]
	for i, f := range files[sockets+orders:] {
		sp.doors = append(sp.doors, door{sp.kinds[i], f})
	}
	if sp.written == nil {
		return nil
	}
	err = sp.written.Check(files[sockets : sockets+orders])
	shut(files[sockets : sockets+orders])
	if err == nil && sp.refuse && !sp.written.Late {
		err = errors.New("packet rules are left out, to see what happens without")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errNoNet, err)
	}
	return nil
}

// receive takes descriptors that a process sends, or its report of what failed.
func (s *script) receive(from *os.File, want int) ([]int, error) {
	said := make([]byte, 64)
	control := make([]byte, unix.CmsgSpace(4*want))
	var n, rights int
	err := unix.EINTR
	// A process that failed before it was told to go on has left that unread. Of this the
	// kernel tells first, once, and then hands out what the process had to say.
	for err == unix.EINTR || err == unix.ECONNRESET {
		n, rights, _, _, err = recvmsg(from, said, control)
	}
	switch {
	case err != 0:
		return nil, fmt.Errorf("hear from the jail's first process: %w", err)
	case s.Failure(said[:n]) != nil:
		return nil, s.Failure(said[:n])
	}
	var files []int
	messages, perr := unix.ParseSocketControlMessage(control[:rights])
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i])
		files = append(files, fds...)
	}
	if perr != nil || len(files) != want {
		shut(files)
		return nil, errors.New("the jail's first process has ended")
	}
	return files, nil
}

func recvmsg(from *os.File, buf, control []byte) (n, rights, flags int, sa unix.Sockaddr, errno unix.Errno) {
	n, rights, flags, sa, err := unix.Recvmsg(int(from.Fd()), buf, control, unix.MSG_CMSG_CLOEXEC)
	if err != nil && !errors.As(err, &errno) {
		errno = unix.EIO
	}
	return n, rights, flags, sa, errno
}

func shut(files []int) {
	for _, f := range files {
		unix.Close(f)
	}
}

// enter enters the namespaces, and makes one more for the mounts.
func (s *script) enter(sp *spaces) {
	for _, d := range sp.doors {
		s.Call(whatSpaces, unix.SYS_SETNS, uintptr(d.file), d.flag)
	}
	s.Call(whatSpaces, unix.SYS_UNSHARE, unix.CLONE_NEWNS)
}

// empty says whether it is certain that there is nobody in the process namespace but its
// first. Once the program has been waited for, all that it left behind are the children of
// that one, or theirs.
func (sp *spaces) empty() bool {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", sp.maker.PID, sp.maker.PID))
	return err == nil && strings.TrimSpace(string(children)) == ""
}

// end kills the first process, and with it everything in its namespace, and may wait until
// all is gone: for the kernel to take namespaces apart takes half a millisecond.
func (sp *spaces) end(wait bool) {
	if sp == nil {
		return // they could not be made
	}
	for _, d := range sp.doors {
		unix.Close(d.file)
	}
	sp.doors = nil // by now they may be other files
	sp.maker.End(wait)
}

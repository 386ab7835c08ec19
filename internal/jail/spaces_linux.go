package jail

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/cofferhq/coffer/internal/link/kernel"
	"golang.org/x/sys/unix"
)

// Spaces are the namespaces of a jail, all but that of its mounts, and the process that
// makes them. That takes the kernel a millisecond, most of it for the network, so that
// process is forked first of all, and this one finds out meanwhile what the program may
// see. The process that becomes the program enters them later.
//
// Whoever made a process namespace is the first in it. The program would have to reap
// orphans there and would be deaf to most signals. So the maker stays, and does nothing.
type spaces struct {
	first    int      // the process; if there is a process namespace, its first
	alone    bool     // there is one
	lifeline *os.File // the process lives as long as this is open
	doors    []door
	sockets  []*os.File // what the network comes out of, if it has rules

	script  *script // what it plays, of which the first calls enter the namespaces
	entered int
	from    *os.File  // by which it hands things out
	kinds   []uintptr // of the namespaces, in the order of the doors
	written *kernel.Written
	refuse  bool // as a kernel without packet rules does
}

// A door is a namespace to enter.
type door struct {
	flag uintptr
	file *os.File
}

// beginSpaces has them made: with a process namespace, if processes are to be apart, and
// with a network namespace, if the jail is to have one.
func (j *jail) beginSpaces(processes bool) (*spaces, error) {
	s := &script{}
	sp := &spaces{alone: processes, script: s, refuse: j.ruleless}
	flags := uint64(0)
	var names []string
	add := func(name string, kind uint64) {
		names, sp.kinds, flags = append(names, name), append(sp.kinds, uintptr(kind)), flags|kind
	}
	if !mayMount() {
		add("user", unix.CLONE_NEWUSER) // the first: who enters it has power over the others
		s.mapIDs()
	}
	sp.entered = len(s.calls)
	add("ipc", unix.CLONE_NEWIPC)
	if processes {
		add("pid", unix.CLONE_NEWPID)
	}
	s.closeCopy()
	var made []int
	if j.apart {
		add("net", unix.CLONE_NEWNET)
		flags &^= unix.CLONE_NEWNET // that takes long: not in the fork, for which this process waits
		s.call(whatNetwork, unix.SYS_UNSHARE, unix.CLONE_NEWNET)
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
	if err := sp.fork(flags, made); err != nil {
		return nil, j.explain(err, nil)
	}
	return sp, nil
}

// staying are the scripts of processes that stay, and use our memory for as long.
var staying []*script

// fork forks the process.
func (sp *spaces) fork(flags uint64, made []int) error {
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	lifeline, life, err := pipes()
	if err != nil {
		ours.Close()
		return err
	}
	defer lifeline.Close()
	sp.from, sp.lifeline = ours, life
	sp.script.send(int(theirs.Fd()), made)
	sp.script.call("stay", 0).do = doStay
	staying = append(staying, sp.script)
	if sp.first, err = sp.script.fork(flags, theirs.Fd(), lifeline.Fd()); err != nil {
		sp.end(false)
	}
	return err
}

// finishSpaces waits until they are made.
func (j *jail) finishSpaces(sp *spaces) error {
	err := sp.receive()
	if err != nil {
		sp.end(true)
	}
	return j.explain(err, sp.script.what[:sp.entered])
}

// door opens one of the process's own namespaces, for others to enter, and returns the
// number of the call.
func (s *script) door(name string) int {
	here := int64(unix.AT_FDCWD)
	s.call(whatSpaces, unix.SYS_OPENAT, uintptr(here), s.text("/proc/self/ns/"+name), unix.O_RDONLY|unix.O_CLOEXEC)
	return len(s.calls) - 1
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
	defer sp.from.Close()
	var sockets, orders int
	if sp.written != nil {
		sockets, orders = len(sp.written.Sockets), len(sp.written.Orders)
	}
	files, err := sp.script.receive(sp.from, sockets+orders+len(sp.kinds))
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
	defer shut(files[sockets : sockets+orders])
	err = sp.written.Check(files[sockets : sockets+orders])
	if err == nil && sp.refuse && !sp.written.Late {
		err = errors.New("packet rules are left out, to see what happens without")
	}
	if err != nil {
		shut(sp.sockets)
		return fmt.Errorf("%w: %w", errNoNet, err)
	}
	return nil
}

// receive takes files that a forked process sends, or its report of what failed.
func (s *script) receive(from *os.File, want int) ([]*os.File, error) {
	var said message
	control := make([]byte, unix.CmsgSpace(4*want))
	var n, rights int
	err := unix.EINTR
	for err == unix.EINTR {
		n, rights, _, _, err = recvmsg(from, said.bytes(), control)
	}
	switch {
	case err != 0:
		return nil, fmt.Errorf("hear from the jail's first process: %w", err)
	case n == len(said.bytes()) && said[0] == saysError:
		return nil, &stageError{s.what[said[1]], unix.Errno(said[2])}
	}
	var files []*os.File
	messages, perr := unix.ParseSocketControlMessage(control[:rights])
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i])
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "jail"))
		}
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

func shut(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// enter enters the namespaces, and makes one more for the mounts.
func (s *script) enter(sp *spaces) {
	for _, d := range sp.doors {
		s.call(whatSpaces, unix.SYS_SETNS, d.file.Fd(), d.flag)
	}
	s.call(whatSpaces, unix.SYS_UNSHARE, unix.CLONE_NEWNS)
}

// empty says whether it is certain that there is nobody in the process namespace but its
// first. Once the program has been waited for, all that it left behind are the children of
// that one, or theirs.
func (sp *spaces) empty() bool {
	if !sp.alone {
		return true // who is left is not held by us anyway
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", sp.first, sp.first))
	return err == nil && strings.TrimSpace(string(children)) == ""
}

// end kills the first process, and with it everything in its namespace, and may wait until
// all is gone: for the kernel to take namespaces apart takes half a millisecond.
func (sp *spaces) end(wait bool) {
	if sp == nil {
		return // they could not be made
	}
	sp.lifeline.Close()
	sp.from.Close()
	for _, d := range sp.doors {
		d.file.Close()
	}
	if sp.first <= 0 {
		return
	}
	_ = unix.Kill(sp.first, unix.SIGKILL)
	for wait {
		_, err := unix.Wait4(sp.first, nil, 0, nil)
		wait = err == unix.EINTR
	}
	sp.first = 0 // by now it may be somebody else's
}

// fork forks a process with the clone flags to play the script.
func (s *script) fork(flags uint64, report, lifeline uintptr) (int, error) {
	if s.slots > maxSlots {
		return 0, errors.New("the jail has too many places")
	}
	// Between blocking signals and hearing them again this must stay one thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s.play = &play{calls: &s.calls[0], count: len(s.calls), report: report, lifeline: lifeline}
	return fork(s.play, flags)
}

package ahead

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/cofferhq/coffer/internal/alias"
	"github.com/cofferhq/coffer/internal/calm"
	"github.com/cofferhq/coffer/internal/steps"
)

// Wanted is which namespaces there shall be.
type Wanted struct {
	Network   bool
	Processes bool // with the maker as its first process
}

// WhatNetwork is what all calls about the network are for: each may fail on some host.
const WhatNetwork = "give the program a network"

// A Maker is a process that has made namespaces, or is about to, and waits for what else it
// shall do: whatever is added to its list before Go.
type Maker struct {
	*steps.List
	PID     int
	User    bool     // there is a user namespace, too
	Entered int      // the lines of the list that are about entering that
	Line    *os.File // to and from the process, which ends with it
	LineFD  int      // its other end, for the process

	flags  uint64
	theirs *os.File // the same, until there is the process
	wanted Wanted
}

// Begin starts to make namespaces. They are not those of any mounts.
func Begin(w Wanted) (*Maker, error) {
	m := &Maker{List: &steps.List{}, wanted: w, flags: syscall.CLONE_NEWIPC}
	if w.Processes {
		m.flags |= syscall.CLONE_NEWPID
	}
	if m.User = !mayMount(); m.User {
		m.flags |= syscall.CLONE_NEWUSER
		m.mapIDs()
	}
	m.Entered = m.Len()
	if !steps.Shared {
		// It is in the jail, with a copy of our memory, environment and all.
		m.Call("close this process to others", syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0)
	}
	if w.Network {
		// That takes long: not in the clone, for which this process waits.
		m.Call(WhatNetwork, syscall.SYS_UNSHARE, syscall.CLONE_NEWNET)
	}
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	m.Line, m.theirs, m.LineFD = os.NewFile(uintptr(ends[0]), "line"), os.NewFile(uintptr(ends[1]), "line"), ends[1]
	if !steps.Shared {
		return m, nil // what it shall do must be known first
	}
	// Its copy of our end: it could not hear that we are gone.
	m.Call("hang up", syscall.SYS_CLOSE, uintptr(ends[0]))
	m.Act("wait", steps.Await)
	return m, m.fork()
}

// kept are the lists of all processes, which may use them for as long as they live.
var kept []*steps.List

func (m *Maker) fork() (err error) {
	kept = append(kept, m.List)
	m.PID, err = m.Fork(m.flags, uintptr(m.LineFD))
	m.theirs.Close()
	if err != nil {
		m.Line.Close()
	}
	return err
}

// Go has the process do what was added to its list. If it has failed already, it has said
// so on its line.
func (m *Maker) Go() error {
	if !steps.Shared {
		return m.fork()
	}
	_ = m.List.Go(m.Line)
	return nil
}

// End ends the process, and with it everything in its process namespace, and may wait until
// it is gone.
func (m *Maker) End(wait bool) {
	m.Line.Close()
	if m.PID <= 0 {
		return
	}
	_ = syscall.Kill(m.PID, syscall.SIGKILL)
	for wait {
		_, err := syscall.Wait4(m.PID, nil, 0, nil)
		wait = err == syscall.EINTR
	}
	m.PID = 0 // by now it may be somebody else's
}

// mapIDs shows the user's id as itself: no other may be mapped by an ordinary user.
func (m *Maker) mapIDs() {
	here := -100 // AT_FDCWD
	for _, f := range []struct{ name, text string }{
		{"setgroups", "deny"},
		{"uid_map", itself(os.Geteuid())},
		{"gid_map", itself(os.Getegid())},
	} {
		fd := m.Result(m.Call("open "+f.name, syscall.SYS_OPENAT, uintptr(here), m.Text("/proc/self/"+f.name), syscall.O_WRONLY|syscall.O_CLOEXEC))
		m.Call("write "+f.name, syscall.SYS_WRITE, 0, m.Text(f.text), uintptr(len(f.text))).With(0, fd)
		// While somebody may write to it, /proc cannot be made read-only.
		m.Call("close "+f.name, syscall.SYS_CLOSE).With(0, fd)
	}
}

func itself(id int) string { return strconv.Itoa(id) + " " + strconv.Itoa(id) + " 1" }

// mayMount says whether this process may make mounts without a user namespace.
func mayMount() bool {
	const version, admin = 0x20080522, 21 // of three, and CAP_SYS_ADMIN
	header := struct {
		version uint32
		pid     int32
	}{version: version}
	var data [2]struct{ effective, permitted, inheritable uint32 }
	_, _, errno := syscall.RawSyscall(syscall.SYS_CAPGET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data)), 0)
	return errno == 0 && data[0].effective>>admin&1 == 1
}

// early is where the maker comes from that was started before it was asked for.
var early *result

type result struct {
	maker *Maker
	err   error
}

func init() {
	w, ok := expected(os.Args)
	if !ok || !steps.Shared {
		return
	}
	calm.Begin()
	m, err := Begin(w)
	early = &result{m, err}
}

// expected guesses which namespaces a command will want. Config may say otherwise, see Take.
func expected(argv []string) (w Wanted, ok bool) {
	if len(argv) < 3 || argv[1] != "jail" || alias.Other(argv[0]) {
		return w, false
	}
	w = Wanted{Network: true, Processes: true}
	last := ""
	for _, a := range argv[2:] {
		switch {
		case a == "--":
			return w, true
		case a == "-h" || a == "--help" || a == "--in-place" || a == "--sandbox=off" || last == "--sandbox" && a == "off":
			return w, false
		case a == "--net=host" || last == "--net" && a == "host":
			w.Network = false
		}
		last = a
	}
	return w, true
}

// Take gives the maker that was started early, if it makes what is wanted, or else begins
// anew.
func Take(w Wanted) (*Maker, error) {
	if early == nil {
		return Begin(w)
	}
	r := early
	early = nil
	if r.err == nil && r.maker.wanted != w {
		r.maker.End(true)
		return Begin(w)
	}
	return r.maker, r.err
}

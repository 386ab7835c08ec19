package birth

import (
	"math"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// A process that enters a user namespace gets a copy of its parent's memory from package
// syscall, and from then on every page that the parent writes to is copied as well, each
// time with a word to all processors. That costs a start more than the namespaces do. So
// here the child shares the memory until it executes the guest agent. It cannot run Go
// code there, and does not: what it does is a list of system calls, made by a few lines of
// assembly.

// A call is a system call of the child.
type call struct {
	number uintptr
	args   [5]uintptr
}

// cloneArgs is the kernel's struct clone_args, as far as it is needed.
type cloneArgs struct {
	flags      uint64
	_          [3]uint64
	exitSignal uint64
	_          [6]uint64
}

// spawn starts a child that makes the calls of a program, one after the other, until one
// fails, whose error it notes, or until one is an exec. It returns the child's id, or an
// error number below zero.
//
//go:noescape
func spawn(args *cloneArgs, program *call, failed *uintptr) (pid uintptr)

// A child is what a process needs that does not have memory of its own yet.
type child struct {
	calls  []call
	keep   []any // what the calls point to
	failed uintptr
}

// do adds a call.
func (c *child) do(number uintptr, args ...uintptr) {
	n := call{number: number}
	copy(n.args[:], args)
	c.calls = append(c.calls, n)
}

// at keeps a value for the child and says where it is.
func at[T any](c *child, v *T) uintptr {
	c.keep = append(c.keep, v)
	return uintptr(unsafe.Pointer(v))
}

func (c *child) text(s string) uintptr {
	b, _ := syscall.BytePtrFromString(s)
	return at(c, b)
}

func (c *child) texts(list []string) uintptr {
	all := make([]uintptr, len(list)+1)
	for i, s := range list {
		all[i] = c.text(s)
	}
	return at(c, &all[0])
}

// What package syscall does not name. (Linux 5.5 for the flag)
const (
	clearHandlers = 0x100000000 // CLONE_CLEAR_SIGHAND
	sharedMemory  = syscall.CLONE_VM
	ambient       = 47
	ambientRaise  = 2
	capVersion    = 0x20080522
	noErrno       = ^uintptr(4095 - 1) // results from here on are errors
)

// cloneShared is clone for a kernel and a processor where the child can share our memory
// until it executes; supported is false where it cannot.
func cloneShared(p *Process, files []uintptr, args, env []string) (pid int, supported bool, err error) {
	who, c := p.IDs, &child{}
	p.child = c
	var release [2]int
	if err := syscall.Pipe2(release[:], syscall.O_CLOEXEC); err != nil {
		return 0, true, err
	}
	defer syscall.Close(release[0])
	defer syscall.Close(release[1])
	// Above those that they are going to be.
	moved := make([]uintptr, len(files))
	for i, fd := range files {
		n, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_DUPFD_CLOEXEC, uintptr(len(files)))
		if errno != 0 {
			return 0, true, errno
		}
		defer syscall.Close(int(n))
		moved[i] = n
	}
	// Should we die, so shall it, from now on; who changes his ids has to say so again.
	c.do(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL))
	if !who.Helper {
		// Should we be gone, this ends at once, and so does what comes next.
		c.do(syscall.SYS_CLOSE, uintptr(release[1]))
		c.do(syscall.SYS_READ, uintptr(release[0]), at(c, new(byte)), 1)
	}
	c.do(syscall.SYS_SETSID)
	if who.Shift {
		c.do(syscall.SYS_SETGROUPS, 0, 0)
		c.do(syscall.SYS_SETGID, 0)
		c.do(syscall.SYS_SETUID, 0)
	} else {
		c.inherit()
	}
	c.do(syscall.SYS_CHDIR, c.text("/"))
	c.do(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL))
	for i, fd := range moved {
		c.do(syscall.SYS_DUP3, fd, uintptr(i), 0)
	}
	c.do(syscall.SYS_EXECVE, c.text("/proc/self/exe"), c.texts(args), c.texts(env))
	clone := &cloneArgs{flags: namespaces | sharedMemory | clearHandlers, exitSignal: uint64(syscall.SIGCHLD)}
	syscall.ForkLock.Lock()
	r := spawn(clone, &c.calls[0], &c.failed)
	syscall.ForkLock.Unlock()
	if r >= noErrno {
		errno := syscall.Errno(-r)
		return 0, !refusesClone3(errno), errno
	}
	if !who.Helper {
		if err = mapIDs(int(r), who); err == nil {
			_, err = syscall.Write(release[1], []byte{0})
		}
	}
	if err != nil {
		kill(int(r))
	}
	return int(r), true, err
}

// refusesClone3 tells a kernel or a filter that does not have the call, which may say so in
// several ways.
func refusesClone3(errno syscall.Errno) bool {
	return errno == syscall.ENOSYS || errno == syscall.EPERM || errno == syscall.EINVAL
}

// err is why the child came to nothing.
func (c *child) err() error {
	if errno := syscall.Errno(atomic.LoadUintptr(&c.failed)); errno != 0 {
		return errno
	}
	return nil
}

// inherit lets the agent keep all capabilities that it has in its namespace.
func (c *child) inherit() {
	header := &struct{ version, pid uint32 }{version: capVersion}
	data := &[6]uint32{}
	for i := range data {
		data[i] = math.MaxUint32 // the kernel knows which there are
	}
	c.do(syscall.SYS_CAPSET, at(c, header), at(c, data))
	for _, capability := range Capabilities() {
		c.do(syscall.SYS_PRCTL, ambient, ambientRaise, capability)
	}
}

// mapIDs gives a process its ids.
func mapIDs(pid int, who IDs) error {
	dir := "/proc/" + strconv.Itoa(pid) + "/"
	groups := "deny"
	if who.Shift {
		groups = "allow"
	}
	for _, f := range []struct{ name, text string }{
		{"uid_map", mapping(who.UIDs)}, {"setgroups", groups}, {"gid_map", mapping(who.GIDs)},
	} {
		fd, err := syscall.Open(dir+f.name, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return os.NewSyscallError("open "+f.name, err)
		}
		_, err = syscall.Write(fd, []byte(f.text))
		syscall.Close(fd)
		if err != nil {
			return os.NewSyscallError("write "+f.name, err)
		}
	}
	return nil
}

func mapping(list []syscall.SysProcIDMap) (text string) {
	for _, m := range list {
		text += strconv.Itoa(m.ContainerID) + " " + strconv.Itoa(m.HostID) + " " + strconv.Itoa(m.Size) + "\n"
	}
	return text
}

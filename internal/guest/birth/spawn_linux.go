package birth

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"github.com/cofferhq/coffer/internal/calm"
	"github.com/cofferhq/coffer/internal/steps"
)

// What package syscall does not name.
const (
	ambient      = 47
	ambientRaise = 2
	capVersion   = 0x20080522
	setSlack     = 29
	getSlack     = 30
)

// patience is how much later than it asked to, in nanoseconds, the agent may be woken up. A
// thread of Go's runtime asks every 20 microseconds while anything goes on, to see whether it
// does: on two processors that are busy, that costs a start four percent.
const patience = 2_000_000

// slack is how much later the programs of our user may be woken up.
func slack() uintptr {
	if n, _, err := syscall.RawSyscall(syscall.SYS_PRCTL, getSlack, 0, 0); err == 0 && n > 0 {
		return n
	}
	return 50_000 // the kernel's own
}

// noLine is for a process that has nobody to report to: what it fails with is in our memory.
const noLine = ^uintptr(0)

// cloneShared is clone for a kernel and a processor where the child can share our memory
// until it executes; supported is false where it cannot.
func cloneShared(p *Process, files []uintptr, args, env []string) (pid int, supported bool, err error) {
	if !steps.Shared {
		return 0, false, nil
	}
	who, c := p.IDs, &steps.List{}
	p.child = c
	do := func(number uintptr, args ...uintptr) { c.Call("become the guest agent", number, args...) }
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
	do(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL))
	if !who.Helper {
		// Should we be gone, this ends at once, and so does what comes next.
		do(syscall.SYS_CLOSE, uintptr(release[1]))
		do(syscall.SYS_READ, uintptr(release[0]), steps.Data(c, new(byte)), 1)
	}
	do(syscall.SYS_SETSID)
	do(syscall.SYS_PRCTL, setSlack, patience)
	calm.Undo(c)
	if who.Shift {
		do(syscall.SYS_SETGROUPS, 0, 0)
		do(syscall.SYS_SETGID, 0)
		do(syscall.SYS_SETUID, 0)
	} else {
		inherit(c)
	}
	do(syscall.SYS_CHDIR, c.Text("/"))
	do(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL))
	for i, fd := range moved {
		do(syscall.SYS_DUP3, fd, uintptr(i), 0)
	}
	c.Act("hear signals", steps.Hear)
	do(syscall.SYS_EXECVE, c.Text("/proc/self/exe"), c.Texts(args), c.Texts(env))
	syscall.ForkLock.Lock()
	pid, err = c.Fork(namespaces, noLine)
	syscall.ForkLock.Unlock()
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return 0, !refusesClone3(errno), errno
	}
	if !who.Helper {
		if err = mapIDs(pid, who); err == nil {
			_, err = syscall.Write(release[1], []byte{0})
		}
	}
	if err != nil {
		kill(pid)
	}
	return pid, true, err
}

// refusesClone3 tells a kernel or a filter that does not have the call, which may say so in
// several ways.
func refusesClone3(errno syscall.Errno) bool {
	return errno == syscall.ENOSYS || errno == syscall.EPERM || errno == syscall.EINVAL
}

// inherit lets the agent keep all capabilities that it has in its namespace.
func inherit(c *steps.List) {
	header := &struct{ version, pid uint32 }{version: capVersion}
	data := &[6]uint32{}
	for i := range data {
		data[i] = 1<<32 - 1 // the kernel knows which there are
	}
	c.Call("keep capabilities", syscall.SYS_CAPSET, steps.Data(c, header), steps.Data(c, data))
	for _, capability := range Capabilities() {
		c.Call("keep capabilities", syscall.SYS_PRCTL, ambient, ambientRaise, capability)
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

package jail

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// play is a script as the forked process sees it, with all that it needs.
type play struct {
	calls    *systemCall
	count    int
	report   uintptr // where to say what happens
	lifeline uintptr // what the process outside holds the other end of, for doStay
	slots    [maxSlots + 1]uintptr
	twin     cloneArgs // beside this process instead of below it
	mask     uint64    // the signals that the program shall not get, as they were
	ignore   sigaction
	said     message
}

// cloneArgs is the kernel's struct clone_args, as far as it is needed. (Linux 5.5)
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64
}

// sigaction is the kernel's own, on the 64-bit machines that we know.
type sigaction struct{ handler, flags, restorer, mask uint64 }

// fork forks this process to play. No signal may come while a copy of a Go program runs,
// so the thread is deaf meanwhile, and CLONE_CLEAR_SIGHAND takes Go's handlers away;
// what was ignored stays so.
func fork(p *play, flags uint64) (int, error) {
	p.twin = cloneArgs{flags: unix.CLONE_PARENT}
	p.ignore = sigaction{handler: 1}
	args := cloneArgs{flags: flags | unix.CLONE_CLEAR_SIGHAND, exitSignal: uint64(unix.SIGCHLD)}
	all := ^uint64(0)
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&p.mask)), 8, 0, 0); errno != 0 {
		return 0, fmt.Errorf("block signals: %w", errno)
	}
	pid, errno := split(&args)
	if pid == 0 && errno == 0 {
		p.run() // does not return
	}
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&p.mask)), 0, 8, 0, 0)
	if errno != 0 {
		return 0, &stageError{whatSpaces, errno}
	}
	return int(pid), nil
}

//go:nosplit
//go:norace
func split(args *cloneArgs) (uintptr, unix.Errno) {
	pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args), 0)
	return pid, errno
}

// run makes the calls, one after the other. It does not return.
//
//go:nosplit
//go:norace
func (p *play) run() {
	for i := 0; i < p.count; i++ {
		c := (*systemCall)(unsafe.Add(unsafe.Pointer(p.calls), uintptr(i)*unsafe.Sizeof(*p.calls)))
		switch c.do {
		case doStay:
			p.stay()
		case doTwin:
			p.goOnBeside(i)
			continue
		case doHear:
			unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&p.mask)), 0, 8, 0, 0)
			continue
		case doReady:
			p.say(saysReady, 0, 0)
			p.exit()
		}
		a := c.args
		for n := range a {
			if c.from[n] != 0 {
				a[n] = p.slots[c.from[n]]
			}
		}
		r, _, errno := unix.RawSyscall6(c.number, a[0], a[1], a[2], a[3], a[4], a[5])
		switch {
		case errno == 0:
			p.slots[c.into] = r
			if c.point != nil {
				*c.point = int32(r)
			}
		case errno == c.forgive[0], errno == c.forgive[1], errno == c.forgive[2], c.anyway:
			i += c.skip
		default:
			p.fail(i, errno)
		}
	}
	p.fail(p.count-1, unix.EINVAL) // the last call is the one that does not return
}

// stay is what the first process of a process namespace does: nothing. When the process
// outside that holds the other end of its lifeline is gone, it ends, and the kernel ends
// all others of the namespace. Orphans, which it inherits, are forgotten by the kernel
// itself, because it ignores their end. It does not return.
//
//go:nosplit
//go:norace
func (p *play) stay() {
	life := p.lifeline
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(&p.ignore)), 0, 8, 0, 0)
	if life > 0 {
		unix.RawSyscall(unix.SYS_CLOSE_RANGE, 0, life-1, 0)
	}
	unix.RawSyscall(unix.SYS_CLOSE_RANGE, life+1, 1<<32-1, 0)
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_READ, life, uintptr(unsafe.Pointer(&p.said)), 1)
		if errno != unix.EINTR {
			p.exit()
		}
	}
}

// goOnBeside continues in a new process that is the child of this one's parent.
//
//go:nosplit
//go:norace
func (p *play) goOnBeside(i int) {
	pid, errno := split(&p.twin)
	if errno != 0 {
		p.fail(i, errno)
	}
	if pid != 0 {
		p.say(saysProgram, 0, int32(pid))
		p.exit()
	}
}

//go:nosplit
//go:norace
func (p *play) fail(i int, errno unix.Errno) {
	p.say(saysError, int32(i), int32(errno))
	p.exit()
}

//go:nosplit
//go:norace
func (p *play) say(what, which, value int32) {
	p.said = message{what, which, value}
	unix.RawSyscall(unix.SYS_WRITE, p.report, uintptr(unsafe.Pointer(&p.said)), unsafe.Sizeof(p.said))
}

//go:nosplit
//go:norace
func (p *play) exit() {
	for {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 125, 0, 0)
	}
}

package jail

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// play is a script as the process that makes the calls sees it, with all that it needs. It
// shares the memory of this one, where that can be had (see spawn), so a play must stay
// where it is for as long as there is such a process.
type play struct {
	calls    *systemCall
	count    int
	at       int     // where to begin
	report   uintptr // where to say what happens
	lifeline uintptr // what the process outside holds the other end of, for doStay
	slots    [maxSlots + 1]uintptr
	twin     cloneArgs // beside this process instead of below it
	mask     uint64    // the signals that the program shall not get, as they were
	ignore   sigaction
	stacks   [2][stackSize]byte
}

// cloneArgs is the kernel's struct clone_args, as far as it is needed. (Linux 5.5)
type cloneArgs struct {
	flags                        uint64
	_                            [3]uint64 // pidfd, child_tid, parent_tid
	exitSignal, stack, stackSize uint64
	_                            uint64 // tls
}

// sigaction is the kernel's own, on the 64-bit machines that we know.
type sigaction struct{ handler, flags, restorer, mask uint64 }

// stackSize is more than enough for functions that call no others: see [play.run].
const stackSize = 4096

// on has a process begin on a stack of its own, if it shares our memory.
func (p *play) on(stack int, args cloneArgs) cloneArgs {
	if inMemory != 0 {
		args.flags |= inMemory
		args.stack, args.stackSize = uint64(uintptr(unsafe.Pointer(&p.stacks[stack]))), stackSize-64 // and an argument
	}
	return args
}

// fork makes a process that plays. No signal may come while it runs on what belongs to a Go
// program, so the thread is deaf meanwhile, and CLONE_CLEAR_SIGHAND takes Go's handlers away;
// what was ignored stays so.
func fork(p *play, flags uint64) (int, error) {
	p.twin = p.on(1, cloneArgs{flags: unix.CLONE_PARENT})
	p.ignore = sigaction{handler: 1}
	args := p.on(0, cloneArgs{flags: flags | unix.CLONE_CLEAR_SIGHAND, exitSignal: uint64(unix.SIGCHLD)})
	all := ^uint64(0)
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&p.mask)), 8, 0, 0); errno != 0 {
		return 0, fmt.Errorf("block signals: %w", errno)
	}
	pid := spawn(&args, p)
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&p.mask)), 0, 8, 0, 0)
	if errno := failure(pid); errno != 0 {
		return 0, &stageError{whatSpaces, errno}
	}
	return int(pid), nil
}

// failure is the error that spawn returns in the place of a process id.
//
//go:nosplit
func failure(pid uintptr) unix.Errno {
	const lastError = 4095
	if pid > ^uintptr(lastError) {
		return unix.Errno(-pid)
	}
	return 0
}

// perform is where a process begins that has no memory of its own.
//
//go:nosplit
//go:norace
func perform(p *play) { p.run() }

var _ = perform // by assembly alone

// run makes the calls, one after the other. It does not return.
//
//go:nosplit
//go:norace
func (p *play) run() {
	for i := p.at; i < p.count; i++ {
		c := (*systemCall)(unsafe.Add(unsafe.Pointer(p.calls), uintptr(i)*unsafe.Sizeof(*p.calls)))
		switch c.do {
		case doStay:
			p.stay()
		case doTwin:
			p.goOnBeside(i)
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
		var nothing byte
		_, _, errno := unix.RawSyscall(unix.SYS_READ, life, uintptr(unsafe.Pointer(&nothing)), 1)
		if errno != unix.EINTR {
			p.exit()
		}
	}
}

// goOnBeside continues in a new process that is the child of this one's parent. It does not
// return.
//
//go:nosplit
//go:norace
func (p *play) goOnBeside(i int) {
	p.at = i + 1
	pid := spawn(&p.twin, p)
	if errno := failure(pid); errno != 0 {
		p.fail(i, errno)
	}
	p.say(saysProgram, 0, int32(pid))
	p.exit()
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
	said := message{what, which, value}
	unix.RawSyscall(unix.SYS_WRITE, p.report, uintptr(unsafe.Pointer(&said)), unsafe.Sizeof(said))
}

//go:nosplit
//go:norace
func (p *play) exit() {
	for {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 125, 0, 0)
	}
}

package steps

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

// play is a list as the process that makes the calls sees it, with all that it needs.
type play struct {
	calls  *Call
	count  int
	at     int     // where to begin
	line   uintptr // where to say what happens, and to wait
	slots  [maxSlots + 1]uintptr
	twin   cloneArgs // beside this process instead of below it
	mask   uint64    // the signals that the program shall not get, as they were
	ignore sigaction
	failed uintptr // an error number
	stacks [2][stackSize]byte
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

// stackSize is more than enough for functions of which the linker counts the stacks.
const stackSize = 4096

// What package syscall does not name.
const (
	clearHandlers = 0x100000000 // CLONE_CLEAR_SIGHAND, Linux 5.5
	sysClone3     = 435
	sysCloseRange = 436 // Linux 5.9
	setMask       = 2   // SIG_SETMASK
)

// on has a process begin on a stack of its own, if it shares our memory.
func (p *play) on(stack int, args cloneArgs) cloneArgs {
	if Shared {
		args.flags |= syscall.CLONE_VM
		args.stack, args.stackSize = uint64(uintptr(unsafe.Pointer(&p.stacks[stack]))), stackSize-64 // and an argument
	}
	return args
}

// fork makes a process that plays. No signal may come while it runs on what belongs to a Go
// program, so the thread is deaf meanwhile, and CLONE_CLEAR_SIGHAND takes Go's handlers away;
// what was ignored stays so.
func fork(p *play, flags uint64) (int, error) {
	p.twin = p.on(1, cloneArgs{flags: syscall.CLONE_PARENT})
	p.ignore = sigaction{handler: 1}
	args := p.on(0, cloneArgs{flags: flags | clearHandlers, exitSignal: uint64(syscall.SIGCHLD)})
	all := ^uint64(0)
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, setMask, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&p.mask)), 8, 0, 0)
	pid := spawn(&args, p)
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, setMask, uintptr(unsafe.Pointer(&p.mask)), 0, 8, 0, 0)
	if errno := failure(pid); errno != 0 {
		return 0, &Error{Making, errno}
	}
	return int(pid), nil
}

// failure is the error that spawn returns in the place of a process id.
//
//go:nosplit
func failure(pid uintptr) syscall.Errno {
	const lastError = 4095
	if pid > ^uintptr(lastError) {
		return syscall.Errno(-pid)
	}
	return 0
}

func (p *play) err() error {
	if errno := syscall.Errno(atomic.LoadUintptr(&p.failed)); errno != 0 {
		return errno
	}
	return nil
}

// run makes the calls, one after the other. It does not return.
//
//go:nosplit
//go:norace
func (p *play) run() {
	for i := p.at; i < p.count; i++ {
		c := (*Call)(unsafe.Add(unsafe.Pointer(p.calls), uintptr(i)*unsafe.Sizeof(*p.calls)))
		switch c.Do {
		case Await:
			p.await()
			continue
		case Stay:
			p.stay()
		case Twin:
			p.goOnBeside(i)
		case Hear:
			syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, setMask, uintptr(unsafe.Pointer(&p.mask)), 0, 8, 0, 0)
			continue
		case Ready:
			p.say(saysReady, 0, 0)
			p.exit()
		}
		a := c.args
		for n := range a {
			if c.from[n] != 0 {
				a[n] = p.slots[c.from[n]]
			}
		}
		r, _, errno := syscall.RawSyscall6(c.number, a[0], a[1], a[2], a[3], a[4], a[5])
		switch {
		case errno == 0:
			p.slots[c.Into] = r
			if c.Point != nil {
				*c.Point = int32(r)
			}
		case errno == c.forgive[0], errno == c.forgive[1], errno == c.forgive[2], c.Anyway:
			i += c.skip
		default:
			p.fail(i, errno)
		}
	}
	p.fail(p.count-1, syscall.EINVAL) // the last call is the one that does not return
}

// await waits until this process is told to go on. It ends when nobody is there to do so.
//
//go:nosplit
//go:norace
func (p *play) await() {
	if p.hear() != 1 {
		p.exit()
	}
}

// hear reads a byte from the line.
//
//go:nosplit
//go:norace
func (p *play) hear() uintptr {
	for {
		var word byte
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, p.line, uintptr(unsafe.Pointer(&word)), 1)
		if errno == 0 {
			return n
		}
		if errno != syscall.EINTR {
			return 0
		}
	}
}

// stay is what the first process of a process namespace does: nothing. When the process
// outside that holds the other end of its line is gone, it ends, and the kernel ends
// all others of the namespace. Orphans, which it inherits, are forgotten by the kernel
// itself, because it ignores their end. It does not return.
//
//go:nosplit
//go:norace
func (p *play) stay() {
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGCHLD), uintptr(unsafe.Pointer(&p.ignore)), 0, 8, 0, 0)
	if p.line > 0 {
		syscall.RawSyscall(sysCloseRange, 0, p.line-1, 0)
	}
	syscall.RawSyscall(sysCloseRange, p.line+1, 1<<32-1, 0)
	for p.hear() != 0 {
	}
	p.exit()
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
func (p *play) fail(i int, errno syscall.Errno) {
	atomic.StoreUintptr(&p.failed, uintptr(errno))
	p.say(saysError, int32(i), int32(errno))
	p.exit()
}

//go:nosplit
//go:norace
func (p *play) say(what, which, value int32) {
	said := message{what, which, value}
	syscall.RawSyscall(syscall.SYS_WRITE, p.line, uintptr(unsafe.Pointer(&said)), unsafe.Sizeof(said))
}

//go:nosplit
//go:norace
func (p *play) exit() {
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 125, 0, 0)
	}
}

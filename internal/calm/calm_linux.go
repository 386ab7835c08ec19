package calm

import (
	"syscall"
	"time"
	"unsafe"
)

// start is longer than a start takes. Later the thread has its purpose: somebody may wait in the
// kernel and keep others from running.
const start = 50 * time.Millisecond

// Policies of the scheduler, which may be changed at will. Threads that this one makes, and
// processes, have the normal one; that cannot be changed again.
const (
	normal, batch = 0 | forItself, 3 | forItself
	forItself     = 1 << 30
)

// Begin is for who is being initialised: the thread is the first that the runtime makes.
func Begin() {
	pid := syscall.Getpid()
	first := pid + 1
	if _, _, err := syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(pid), uintptr(first), 0); err != 0 {
		return // somebody else has that number
	}
	if schedule(first, batch) {
		time.AfterFunc(start, func() { schedule(first, normal) })
	}
}

func schedule(thread, policy int) bool {
	var priority int32
	_, _, err := syscall.RawSyscall(syscall.SYS_SCHED_SETSCHEDULER, uintptr(thread), uintptr(policy), uintptr(unsafe.Pointer(&priority)))
	return err == 0
}

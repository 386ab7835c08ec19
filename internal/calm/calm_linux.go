package calm

import (
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"github.com/cofferhq/coffer/internal/steps"
)

// start is longer than a start takes. Later the thread has its purpose: somebody may wait in the
// kernel and keep others from running.
const start = 50 * time.Millisecond

// Policies of the scheduler, which may be changed at will.
const normal, batch = 0, 3

// begun says that threads of this process may have another policy than it was started with, and
// so may what they fork: see Undo.
var begun bool

// Begin is for who is being initialised: the thread is the first that the runtime makes.
func Begin() {
	pid := syscall.Getpid()
	first := pid + 1
	if _, _, err := syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(pid), uintptr(first), 0); err != 0 {
		return // somebody else has that number
	}
	if policy, _, err := syscall.RawSyscall(syscall.SYS_SCHED_GETSCHEDULER, uintptr(first), 0, 0); err != 0 || policy != normal {
		return // the user has chosen one
	}
	if begun = schedule(first, batch); begun {
		time.AfterFunc(start, end)
	}
}

// Undo adds to what a process does that is forked that it has the usual policy again.
func Undo(l *steps.List) {
	if begun {
		l.Call("be scheduled as usual", syscall.SYS_SCHED_SETSCHEDULER, 0, normal, steps.Data(l, new(int32)))
	}
}

// end has all threads as they were: those that the first one made are as it was.
func end() {
	for again := true; again; {
		again = false
		threads, _ := os.ReadDir("/proc/self/task")
		for _, t := range threads {
			id, _ := strconv.Atoi(t.Name())
			policy, _, err := syscall.RawSyscall(syscall.SYS_SCHED_GETSCHEDULER, uintptr(id), 0, 0)
			// One that was as the first may have made another meanwhile.
			again = err == 0 && policy == batch && schedule(id, normal) || again
		}
	}
}

func schedule(thread, policy int) bool {
	var priority int32
	_, _, err := syscall.RawSyscall(syscall.SYS_SCHED_SETSCHEDULER, uintptr(thread), uintptr(policy), uintptr(unsafe.Pointer(&priority)))
	return err == 0
}

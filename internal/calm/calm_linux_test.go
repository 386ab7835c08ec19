package calm

import (
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
)

func init() { Begin() }

// The thread is as it was before when the start is over.
func TestBegin(t *testing.T) {
	thread := os.Getpid() + 1
	if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(thread)); err != nil {
		t.Skip("the first thread has another number: ", err)
	}
	for range 100 {
		policy, _, err := syscall.RawSyscall(syscall.SYS_SCHED_GETSCHEDULER, uintptr(thread), 0, 0)
		if err != 0 {
			t.Fatal(err)
		}
		if policy == normal {
			return
		}
		time.Sleep(start)
	}
	t.Error("it is still out of the way")
}

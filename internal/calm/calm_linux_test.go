package calm

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"
)

func init() { Begin() }

// All threads are as they were when the start is over, also those that the first one made.
func TestBegin(t *testing.T) {
	if !begun {
		t.Skip("the first thread has another number, or the user another policy")
	}
	done := make(chan struct{})
	defer close(done)
	made := make(chan bool)
	go func() {
		runtime.LockOSThread()
		made <- schedule(syscall.Gettid(), batch)
		<-done
	}()
	if !<-made || outOfTheWay(t) == 0 {
		t.Fatal("no thread is out of the way")
	}
	end()
	if n := outOfTheWay(t); n > 0 {
		t.Errorf("%d are still out of the way", n)
	}
}

func outOfTheWay(t *testing.T) (n int) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		id, _ := strconv.Atoi(thread.Name())
		if policy, _, _ := syscall.RawSyscall(syscall.SYS_SCHED_GETSCHEDULER, uintptr(id), 0, 0); policy == batch {
			n++
		}
	}
	return n
}

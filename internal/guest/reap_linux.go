package guest

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// reaper collects every dead process of the sandbox, its own children and the
// orphans that a first process inherits, and tells those who wait for one.
type reaper struct {
	mu      sync.Mutex
	waiting map[int]chan syscall.WaitStatus
}

func newReaper() *reaper {
	return &reaper{waiting: map[int]chan syscall.WaitStatus{}}
}

// start runs fork, which returns a process id, and returns where its end will be
// told. The lock is held across both, so that no end is missed.
func (r *reaper) start(fork func() (int, error)) (int, <-chan syscall.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return 0, nil, err
	}
	end := make(chan syscall.WaitStatus, 1)
	r.waiting[pid] = end
	return pid, end, nil
}

// run collects the dead whenever a signal arrives.
func (r *reaper) run(signals <-chan os.Signal) {
	r.collect()
	for s := range signals {
		if s == unix.SIGCHLD {
			r.collect()
		}
	}
}

func (r *reaper) collect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if end, ok := r.waiting[pid]; ok {
			delete(r.waiting, pid)
			end <- status
		}
	}
}

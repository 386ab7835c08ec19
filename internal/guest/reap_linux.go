package guest

import (
	"bytes"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// reaper collects every dead process of the sandbox, its own children and the
// orphans that a first process inherits, and tells those who wait for one. Leaders that
// somebody inside has stopped it has go on.
//
// It waits in the kernel, on a thread of its own: by way of SIGCHLD, the news would
// pass through two more goroutines before it arrives.
type reaper struct {
	mu      sync.Mutex
	waiting map[int]awaited
	born    chan struct{} // there are children again
}

// awaited is a process that somebody waits for.
type awaited struct {
	end chan syscall.WaitStatus
	// leads says that it leads a session on a terminal. It never stops itself, and nobody
	// else would have it go on.
	leads bool
}

// start runs fork, which returns a process id, and returns where its end will be
// told. The lock is held across both, so that no end is missed. (A neighbour that stops
// the new process before its exec holds up everything here: its own sandbox.)
func (r *reaper) start(leads bool, fork func() (int, error)) (int, <-chan syscall.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return 0, nil, err
	}
	end := make(chan syscall.WaitStatus, 1)
	r.waiting[pid] = awaited{end, leads}
	select {
	case r.born <- struct{}{}:
	default:
	}
	return pid, end, nil
}

// with calls f while the process, dead or alive, keeps its id.
func (r *reaper) with(pid int, f func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.waiting[pid]; !ok {
		return unix.ESRCH
	}
	return f()
}

// run collects the dead for ever.
func (r *reaper) run() {
	for {
		// Who was told of an end goes first: there is one thread at a time, and until
		// the runtime notices that this one waits, nobody else runs.
		runtime.Gosched()
		// Look first, and only then collect under the lock.
		switch err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil); err {
		case nil:
			r.collect()
		case unix.ECHILD:
			// No child means no process at all: an orphan has an ancestor
			// that was one.
			<-r.born
		}
	}
}

func (r *reaper) collect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	eachChild(func(pid int, status syscall.WaitStatus) {
		w, ok := r.waiting[pid]
		switch {
		case !ok:
		case status.Stopped():
			if w.leads {
				_ = unix.Kill(pid, unix.SIGCONT)
			}
		default:
			delete(r.waiting, pid)
			w.end <- status
		}
	})
}

// eachChild tells of all children that have ended, or stopped, by now.
func eachChild(tell func(pid int, status syscall.WaitStatus)) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		tell(pid, status)
	}
}

// background serves OpBackground. A program in the background is a child of the first process that
// nobody inside or outside waits for: the kernel gives it the orphans.
func (a *agent) background(s net.Conn) {
	defer wire.HangUp(s)
	// One that starts or ends meanwhile is awaited before or after the look.
	before := a.reaper.awaited()
	var found wire.Background
	for _, pid := range numbered("/proc", maxProcesses) {
		n, err := strconv.Atoi(pid)
		if err != nil || before[n] || !orphan("/proc/"+pid) || a.reaper.awaited()[n] {
			continue
		}
		if found.Count++; len(found.Names) < wire.MaxNames {
			found.Names = append(found.Names, command("/proc/"+pid))
		}
	}
	_ = wire.WriteMessage(s, wire.Event{Background: &found})
}

// orphan says whether a living process is a child of this one.
func orphan(dir string) bool {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return false
	}
	// The state and the parent follow the name, which is in brackets and may hold any byte.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return len(fields) > 1 && string(fields[0]) != "Z" && string(fields[1]) == strconv.Itoa(os.Getpid())
}

// awaited are the processes whose end somebody waits for.
func (r *reaper) awaited() map[int]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[int]bool, len(r.waiting))
	for pid := range r.waiting {
		all[pid] = true
	}
	return all
}

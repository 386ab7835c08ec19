package jail

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cofferhq/coffer/internal/confine"
	"golang.org/x/sys/unix"
)

// What a program left running ends with it. A process namespace sees to that; without one,
// orphans become children of this process (PR_SET_CHILD_SUBREAPER), which kills all that is below
// it. A process could fork meanwhile, so all are stopped first, until none is found that still runs.
// Each is held by a descriptor before it is looked at, so that no signal reaches another process
// that is given the same number later.

const (
	stopTime = time.Second      // for all to stop: a system call may keep one from it
	endTime  = 10 * time.Second // for all to be gone
)

// rest is what a program left running.
type rest struct {
	before map[int]string // children that were there before the program, and when they were started
	held   map[int]int    // descriptors of stopped processes
}

// newRest notes which children this process has before it starts the program.
func newRest() *rest {
	r := &rest{before: map[int]string{}}
	for _, pid := range childrenOf(os.Getpid()) {
		if p, ok := stat(pid); ok {
			r.before[pid] = p.started
		}
	}
	return r
}

// end ends the rest, and returns how many processes could not be ended.
func (r *rest) end() (left int) {
	for until := time.Now().Add(endTime); time.Now().Before(until); {
		if !reap() {
			return 0
		}
		r.held = map[int]int{}
		r.stop()
		if left = len(r.held); left == 0 {
			return 0
		}
		for _, fd := range r.held {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		for _, fd := range r.held {
			await(fd, until)
			unix.Close(fd)
		}
	}
	return left
}

// reap collects children that have ended, and says whether there are others.
func reap() bool {
	for {
		switch pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); {
		case errors.Is(err, unix.ECHILD):
			return false
		case err == nil && pid == 0:
			return true
		}
	}
}

// await waits until a process has ended.
func await(fd int, until time.Time) {
	for wait := time.Until(until); wait > 0; wait = time.Until(until) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(wait.Milliseconds())+1)
		if n > 0 || err != nil && err != unix.EINTR {
			return
		}
	}
}

// stop stops all. A process that was seen stopped forks no more: so once a walk finds all of them
// stopped, the next one misses none.
func (r *rest) stop() {
	until := time.Now().Add(stopTime)
	for calm := 0; calm < 2 && time.Now().Before(until); calm++ {
		reap()
		if r.walk(os.Getpid()) {
			calm = -1
		}
	}
}

// walk stops those below a process, and says whether one still ran.
func (r *rest) walk(parent int) (ran bool) {
	for _, pid := range childrenOf(parent) {
		p, ok := stat(pid)
		if start, known := r.before[pid]; !ok || known && start == p.started {
			continue
		}
		fd, held := r.held[pid]
		switch {
		case held && (p.state == "T" || p.state == "t"):
		case held && unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) != nil: // it has ended
			unix.Close(fd)
			delete(r.held, pid)
			continue
		case held:
			ran = true
		default:
			if !r.hold(pid, parent) {
				continue
			}
			ran = true
		}
		ran = r.walk(pid) || ran
	}
	return ran
}

// hold stops a process and keeps a descriptor of it, if it is one of the program's: one below
// this process with the mark of a jail.
func (r *rest) hold(pid, parent int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	p, ok := stat(pid)
	marked, err := confine.Marked(pid)
	if ok && err == nil && marked && (p.parent == parent || p.parent == os.Getpid()) &&
		unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) == nil {
		r.held[pid] = fd
		return true
	}
	unix.Close(fd)
	return false
}

// process is what /proc says of one.
type process struct {
	state   string
	parent  int
	started string
}

// stat looks at a process that has not ended.
func stat(pid int) (p process, ok bool) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The name comes before, in parentheses, and may contain any byte.
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) < 20 {
		return p, false
	}
	p = process{state: string(f[0]), started: string(f[19])}
	p.parent, _ = strconv.Atoi(string(f[1]))
	return p, p.state != "Z" && p.state != "X"
}

// childrenOf lists the children of all threads of a process.
func childrenOf(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for f := range bytes.FieldsSeq(text) {
			if child, err := strconv.Atoi(string(f)); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

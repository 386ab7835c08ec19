package halt

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// What a program leaves behind when it ends is ended, where no process namespace does it. Its
// orphans become children of this process, if that adopts them (PR_SET_CHILD_SUBREAPER). Who
// is about to be killed could fork meanwhile, so all are stopped first, until nobody new is
// found. Each is held by a descriptor before it is looked at, so that no signal reaches
// another process that has the same number later.

const (
	stopping = time.Second      // for all to stop: some may be kept from it by a system call
	ending   = 10 * time.Second // for all to be gone
)

// Others are processes below this one that were there before the program, and are none of its,
// and when each was started.
type Others map[int]uint64

// Below are those that are there now. One is known to be this process's own, and is left out.
func Below(own int) Others {
	children := Here.children(os.Getpid())
	if len(children) == 0 || len(children) == 1 && children[0] == own {
		return nil
	}
	others := Others{}
	eachBelow(func(pid, _ int) {
		others[pid] = started(Here.stat(strconv.Itoa(pid) + "/"))
	})
	return others
}

// End ends all that are below this process now, but for others and for those that are not the
// program's, and returns how many could not be ended.
func (o Others) End(theirs func(pid int) bool) (left int) {
	until := time.Now().Add(ending)
	for time.Now().Before(until) {
		if !collect() {
			return 0
		}
		held := o.stop(theirs)
		if left = len(held); left == 0 {
			return 0
		}
		for _, fd := range held {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		for _, fd := range held {
			await(fd, until)
			unix.Close(fd)
		}
	}
	return left
}

// collect forgets children that have ended, and says whether there are others.
func collect() bool {
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

// A sweep stops processes, one look after the other.
type sweep struct {
	others Others
	theirs func(pid int) bool
	held   map[int]int // descriptors
}

// stop stops all, and returns descriptors of them. Who was stopped before somebody looked has forked
// nobody since: so if all were in one look, the next one misses nobody.
func (o Others) stop(theirs func(pid int) bool) map[int]int {
	s := &sweep{o, theirs, map[int]int{}}
	until := time.Now().Add(stopping)
	for calm := 0; calm < 2 && time.Now().Before(until); calm++ {
		collect()
		// Some fork and end all the time. To catch them there must be little between seeing
		// one and stopping it; only in the end all processes are looked through.
		stirs := s.walk(os.Getpid())
		if calm == 1 {
			eachBelow(func(pid, parent int) { stirs = s.meet(pid, parent) == stirring || stirs })
		}
		if stirs {
			calm = -1
		}
	}
	return s.held
}

// walk stops those below a process, and says whether somebody had to be.
func (s *sweep) walk(pid int) (stirs bool) {
	for _, child := range Here.offspring(pid) {
		switch s.meet(child, pid) {
		case foreign:
			continue
		case stirring:
			stirs = true
		}
		stirs = s.walk(child) || stirs
	}
	return stirs
}

// What a process that was met is.
const (
	foreign = iota // or gone
	resting
	stirring // it was not stopped yet
)

// meet stops a process that was seen to be below another.
func (s *sweep) meet(pid, parent int) int {
	f := Here.stat(strconv.Itoa(pid) + "/")
	start, known := s.others[pid]
	if ended(f) || known && start == started(f) {
		return foreign
	}
	fd, known := s.held[pid]
	switch {
	case known && (f[0] == "T" || f[0] == "t"):
		return resting
	case !known:
		if fd = s.hold(pid, parent); fd < 0 {
			return foreign
		}
		s.held[pid] = fd
	}
	if unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0) != nil { // it is gone, and may be another one now
		unix.Close(fd)
		delete(s.held, pid)
	}
	return stirring
}

// hold opens a process if it is one below this one, and the program's, or returns -1.
func (s *sweep) hold(pid, parent int) int {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1
	}
	f := Here.stat(strconv.Itoa(pid) + "/")
	if !ended(f) && (f[1] == strconv.Itoa(parent) || f[1] == strconv.Itoa(os.Getpid())) &&
		s.theirs(pid) && unix.PidfdSendSignal(fd, 0, nil, 0) == nil {
		return fd
	}
	unix.Close(fd)
	return -1
}

// ended and started read the fields of a process.
func ended(f []string) bool { return len(f) < 20 || f[0] == "Z" || f[0] == "X" }

func started(f []string) uint64 {
	if len(f) < 20 {
		return 0
	}
	return number(f[19])
}

// offspring lists all children of a process, as children does the first ones.
func (p *Proc) offspring(pid int) (all []int) {
	tasks := strconv.Itoa(pid) + "/task"
	threads, _ := p.names(tasks, -1)
	for _, thread := range threads {
		text, _ := os.ReadFile(p.path + tasks + "/" + thread + "/children")
		for f := range bytes.FieldsSeq(text) {
			if child, err := strconv.Atoi(string(f)); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// eachBelow calls a function with all processes below this one, and their parents, by looking
// through all that there are: a kernel may not tell about children, or leave one out.
func eachBelow(f func(pid, parent int)) {
	all, _ := Here.Processes()
	children := map[int][]int{}
	for _, pid := range all {
		if stat := Here.stat(strconv.Itoa(pid) + "/"); len(stat) > 1 {
			parent := int(number(stat[1]))
			children[parent] = append(children[parent], pid)
		}
	}
	for next := []int{os.Getpid()}; len(next) > 0; next = next[1:] {
		parent := next[0]
		for _, pid := range children[parent] {
			f(pid, parent)
		}
		next = append(next, children[parent]...)
		delete(children, parent) // numbers that were used again meanwhile must not go round in a circle
	}
}

// Package halt prepares a tree of processes to be stopped without anybody in it taking notice, and
// sees to it that they stay so: see [Watch]. It also ends what a program left running: see [Others].
//
// Who sends SIGSTOP to all of them at once stops a shell and the job that it waits for in the
// same moment. If the job is faster, the shell still hears that it has stopped, and takes it for
// the work of Ctrl-Z: when all go on, it gives the user a prompt, and the job waits in the
// background. So those who have children are stopped first, from the top down, each before its
// children are. They go on in the opposite order.
//
// That order is a courtesy, and no wall: processes come and go meanwhile. So it takes little time, and
// who wants all of them stopped does that afterwards.
package halt

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	patience = 5 * time.Millisecond // for all of it
	maxMany  = 64                   // processes that are looked at
	maxAsked = 256                  // and for whether they were asked to stop
)

// Parents stops those processes that have children, from one on, which stays as it is if it is
// this process.
func (p *Proc) Parents(top int) {
	h := &halt{Proc: p, until: time.Now().Add(patience)}
	h.parents(top)
}

type halt struct {
	*Proc
	until time.Time
	seen  int
}

func (h *halt) parents(pid int) {
	if h.seen++; h.seen > maxMany || time.Now().After(h.until) {
		return
	}
	below := h.children(pid)
	if len(below) == 0 {
		return
	}
	if h.Proc != Here || pid != os.Getpid() {
		if h.send(pid, 0, unix.SIGSTOP) != nil {
			return
		}
		for !h.Stopped(pid) && time.Now().Before(h.until) {
			time.Sleep(20 * time.Microsecond)
		}
	}
	for _, child := range below {
		h.parents(child)
	}
}

// Asked finds out of processes that are stopped who was asked to stop meanwhile, as by Ctrl-Z: what
// has them go on takes that back. again asks them once more, after that.
func (p *Proc) Asked(pids []int) (again func()) {
	const bit = 1 << (unix.SIGTSTP - 1)
	var asked []int
	for _, pid := range pids[:min(len(pids), maxAsked)] {
		status := p.status(strconv.Itoa(pid) + "/")
		if (hex(field(status, "ShdPnd"))|hex(field(status, "SigPnd")))&bit != 0 {
			asked = append(asked, pid)
		}
	}
	return func() {
		for _, pid := range asked {
			_ = p.send(pid, 0, unix.SIGTSTP)
		}
	}
}

// Stopped says whether a process is stopped.
func (p *Proc) Stopped(pid int) bool {
	f := p.stat(strconv.Itoa(pid) + "/")
	return len(f) > 0 && f[0] == "T"
}

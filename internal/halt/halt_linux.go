// Package halt prepares a tree of processes to be stopped without anybody in it taking notice.
//
// Who sends SIGSTOP to all of them at once stops a shell and the job that it waits for in the
// same moment. If the job is faster, the shell still hears that it has stopped, and takes it for
// the work of Ctrl-Z: when all go on, it gives the user a prompt, and the job waits in the
// background. So those who have children are stopped first, from the top down, each before its
// children are. They go on in the opposite order.
//
// That is a courtesy, and no wall: processes come and go meanwhile. So it takes little time, and
// who wants all of them stopped does that afterwards.
package halt

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	patience = 5 * time.Millisecond // for all of it
	maxMany  = 64                   // processes that are looked at
)

// Parents stops those processes that have children, from one on, which stays as it is if it is
// this process.
func Parents(top int) {
	h := &halt{until: time.Now().Add(patience)}
	h.parents(top)
}

type halt struct {
	until time.Time
	seen  int
}

func (h *halt) parents(pid int) {
	if h.seen++; h.seen > maxMany || time.Now().After(h.until) {
		return
	}
	below := children(pid)
	if len(below) == 0 {
		return
	}
	if pid != os.Getpid() {
		if unix.Kill(pid, unix.SIGSTOP) != nil {
			return
		}
		for !Stopped(pid) && time.Now().Before(h.until) {
			time.Sleep(20 * time.Microsecond)
		}
	}
	for _, child := range below {
		h.parents(child)
	}
}

// GoOn has a process and those below it go on, from the bottom up.
func GoOn(top int) { (&halt{}).goOn(top) }

func (h *halt) goOn(pid int) {
	if h.seen++; h.seen > maxMany {
		return
	}
	for _, child := range children(pid) {
		h.goOn(child)
	}
	_ = unix.Kill(pid, unix.SIGCONT)
}

// children lists those that threads of a process have forked. (A kernel may not tell.)
func children(pid int) (all []int) {
	tasks := fmt.Sprintf("/proc/%d/task", pid)
	dir, err := os.Open(tasks)
	if err != nil {
		return nil
	}
	defer dir.Close()
	threads, _ := dir.Readdirnames(maxMany)
	for _, thread := range threads {
		for f := range bytes.FieldsSeq(beginning(tasks + "/" + thread + "/children")) {
			if child, err := strconv.Atoi(string(f)); err == nil && len(all) < maxMany {
				all = append(all, child)
			}
		}
	}
	return all
}

// beginning is that of a list of numbers, which may be of any length: as many as are looked at.
func beginning(list string) []byte {
	f, err := os.Open(list)
	if err != nil {
		return nil
	}
	defer f.Close()
	text := make([]byte, maxMany*len("4194304 "))
	n, _ := io.ReadFull(f, text)
	return text[:bytes.LastIndexByte(text[:n], ' ')+1] // one that is cut off is another's
}

// StoppedBelow says whether a child of a process is stopped, other than this one.
func StoppedBelow(pid, but int) bool {
	return slices.ContainsFunc(children(pid), func(child int) bool { return child != but && Stopped(child) })
}

// Stopped says whether a process is stopped.
func Stopped(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	// pid (name) state …, and a name may contain anything.
	i := bytes.LastIndexByte(stat, ')')
	return err == nil && i >= 0 && bytes.HasPrefix(stat[i:], []byte(") T"))
}

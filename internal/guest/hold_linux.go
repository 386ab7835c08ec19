package guest

import (
	"net"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/guest/wire/mux"
	"github.com/cofferhq/coffer/internal/halt"
	"golang.org/x/sys/unix"
)

// The host may have all programs wait: when files that must be hidden come faster than they can
// be, none shall be read meanwhile. SIGSTOP does that, for it reaches everybody at once, also
// who forks in that moment, can be neither caught nor ignored, and takes nothing that an
// ordinary user does not have. It is no part of the programs' own stopping and going on: those
// that were stopped stay so, and no shell hears of it: see package halt.

// A gate is closed while programs wait. It has a lock of its own: to close it, nobody must have
// to wait for a program that is about to start.
type gate struct {
	mu      sync.Mutex
	open    sync.Cond
	closed  bool
	stopped map[int]bool // those who were, before
}

// pass waits until it is open.
func (g *gate) pass() {
	g.mu.Lock()
	for g.closed {
		g.open.Wait()
	}
	g.mu.Unlock()
}

// born has a process wait that has come since, or it would be the only one that does not. The lock
// is held meanwhile: nobody would have it go on if the gate was opened before it is stopped.
func (g *gate) born(pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		_ = unix.Kill(pid, unix.SIGSTOP)
	}
}

// wake has a process go on that must not stop, unless all have to wait: then it does so with them.
func (g *gate) wake(pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if delete(g.stopped, pid); !g.closed {
		_ = unix.Kill(pid, unix.SIGCONT)
	}
}

// remains says whether a process is stopped when nobody has to wait.
func (r *reaper) remains(pid int) bool {
	r.gate.pass()
	return halt.Stopped(pid)
}

// hold serves OpHold.
func (a *agent) hold(s net.Conn, yes bool) {
	var done wire.Done
	if err := a.reaper.gate.set(yes); err != nil {
		done.Error = err.Error()
	}
	_ = wire.WriteMessage(s, wire.Event{Done: &done})
	mux.HangUp(s)
}

// set closes the gate and stops all programs, or has them go on.
func (g *gate) set(closed bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed == closed {
		return nil
	}
	if closed {
		g.closed, g.stopped = true, stopped()
		halt.Parents(os.Getpid())
		if err := unix.Kill(-1, unix.SIGSTOP); err != nil && err != unix.ESRCH { // there is nobody
			return err
		}
		return nil
	}
	all, err := processes()
	if err != nil { // better those too that were stopped before than nobody
		_ = unix.Kill(-1, unix.SIGCONT)
	}
	slices.SortFunc(all, func(a, b int) int { return b - a }) // the young before their parents, mostly
	for _, pid := range all {
		if pid != os.Getpid() && !g.stopped[pid] {
			_ = unix.Kill(pid, unix.SIGCONT)
		}
	}
	g.closed, g.stopped = false, nil
	g.open.Broadcast()
	return nil
}

func processes() (all []int, err error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			all = append(all, pid)
		}
	}
	return all, err
}

// maxStopped is how many processes are looked at before all are stopped: that must not take
// long.
const maxStopped = 256

// stopped are processes that are stopped, as at Ctrl-Z.
func stopped() map[int]bool {
	found := map[int]bool{}
	all, _ := processes()
	for _, pid := range all[:min(len(all), maxStopped)] {
		if halt.Stopped(pid) {
			found[pid] = true
		}
	}
	return found
}

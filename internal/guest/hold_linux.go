package guest

import (
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/cofferhq/coffer/internal/halt"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// The host may have all programs wait when a disk is nearly full: nothing shall be written until
// there is room, which may take hours. SIGSTOP does that, for it reaches everybody at once, also
// who forks in that moment, can be neither caught nor ignored, and takes nothing that an
// ordinary user does not have. It is no part of the programs' own stopping and going on: those
// that were stopped stay so, and no shell hears of it: see package halt.

// A gate is closed while programs wait. It has a lock of its own: to close it, nobody must have
// to wait for a program that is about to start.
type gate struct {
	mu      sync.Mutex
	closed  bool
	why     string       // while it is
	stopped map[int]bool // those who were, before
	watcher *halt.Watch  // over those who wait; nil before the first time
	unwatch func()       // ends it
	// telling is held while the host is told of programs that were ended.
	telling sync.Mutex
}

// pass says why it is closed, or nothing.
func (g *gate) pass() (why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why
}

// told waits until the host has heard of programs that were ended because they did not wait.
func (g *gate) told() {
	g.telling.Lock()
	defer g.telling.Unlock()
}

// within calls f, and it stays open or closed meanwhile.
func (g *gate) within(f func(closed bool) error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return f(g.closed)
}

// instead is what is sent for a signal to programs that wait. They would
// not hear that they shall end before they go on, which is what they must not do. One that
// shall go on, of a group, does so with all others. The lock is held.
func (g *gate) instead(s syscall.Signal, group int) syscall.Signal {
	switch {
	case ends(s):
		return unix.SIGKILL
	case s == unix.SIGCONT:
		maps.DeleteFunc(g.stopped, func(pid int, _ bool) bool {
			of, err := unix.Getpgid(pid)
			return err == nil && of == group
		})
		return 0
	}
	return s
}

// ends says whether a signal asks a program to end.
func ends(s syscall.Signal) bool {
	return s == unix.SIGHUP || s == unix.SIGINT || s == unix.SIGQUIT || s == unix.SIGTERM
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
func (r *reaper) remains(pid int) bool { return r.gate.pass() == "" && halt.Here.Stopped(pid) }

// hold serves OpHold. While programs wait, the stream of whoever asked first stays open: who goes
// on nevertheless is told there.
func (a *agent) hold(s net.Conn, r wire.Request) {
	g := &a.reaper.gate
	if r.HoldHard {
		g.telling.Lock()
		defer g.telling.Unlock()
	}
	defer wire.HangUp(s) // which waits until it was heard
	var done wire.Done
	tell := func(e wire.Event) { _ = wire.WriteMessage(s, e) }
	if !r.Hold {
		g.reopen()
	} else if err := g.close(r.HoldFor); err != nil {
		done.Error = err.Error()
	}
	if r.HoldHard {
		halt.Here.EndRunning(programs(), func(sentence string) { tell(wire.Event{Notice: sentence}) })
	}
	tell(wire.Event{Done: &done})
	// To be hard is to do more about those who wait already, on whose stream there is a watch, or
	// is about to be.
	if r.Hold && !r.HoldHard && done.Error == "" {
		<-g.watch(tell)
	}
}

// close closes the gate and stops all programs. It may be closed already, for another reason.
func (g *gate) close(why string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.why = why
	if g.closed {
		return nil
	}
	g.closed, g.stopped = true, stopped()
	halt.Here.Parents(os.Getpid())
	if err := unix.Kill(-1, unix.SIGSTOP); err != nil && err != unix.ESRCH { // there is nobody
		return err
	}
	return nil
}

// watch begins to see to it that all wait, while the gate is closed, and tells of those who do not.
func (g *gate) watch(tell func(wire.Event)) (over <-chan struct{}) {
	ended := make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed || g.unwatch != nil {
		close(ended)
		return ended
	}
	if g.watcher == nil {
		g.watcher = &halt.Watch{Proc: halt.Here, All: programs}
	}
	g.watcher.Ended = func(sentence string) { tell(wire.Event{Notice: sentence}) }
	g.watcher.Lost = func() {
		_ = unix.Kill(-1, unix.SIGKILL)
		tell(wire.Event{Done: &wire.Done{Error: halt.ErrRestless.Error()}})
	}
	unwatch := g.watcher.Begin()
	g.unwatch = func() {
		unwatch()
		close(ended)
	}
	return ended
}

// reopen opens the gate, and has all programs go on.
func (g *gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		return
	}
	if g.unwatch != nil {
		g.unwatch()
	}
	all, err := halt.Here.Processes()
	if err != nil { // better those too that were stopped before than nobody
		_ = unix.Kill(-1, unix.SIGCONT)
	}
	slices.SortFunc(all, func(a, b int) int { return b - a }) // the young before their parents, mostly
	defer halt.Here.Asked(all)()
	for _, pid := range all {
		if pid != os.Getpid() && !g.stopped[pid] {
			_ = unix.Kill(pid, unix.SIGCONT)
		}
	}
	g.closed, g.why, g.stopped, g.unwatch = false, "", nil, nil
}

// programs are all processes but this one.
func programs() []int {
	all, _ := halt.Here.Processes()
	return slices.DeleteFunc(all, func(pid int) bool { return pid == os.Getpid() })
}

// maxStopped is how many processes are looked at before all are stopped: that must not take
// long.
const maxStopped = 256

// stopped are processes that are stopped, as at Ctrl-Z.
func stopped() map[int]bool {
	found := map[int]bool{}
	all, _ := halt.Here.Processes()
	for _, pid := range all[:min(len(all), maxStopped)] {
		if halt.Here.Stopped(pid) {
			found[pid] = true
		}
	}
	return found
}

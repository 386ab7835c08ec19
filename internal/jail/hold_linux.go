package jail

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/halt"
	"github.com/cofferhq/coffer/internal/steps"
	"golang.org/x/sys/unix"
)

// Programs wait while files to hide come faster than they can be hidden, and while this process
// is stopped, as at Ctrl-Z: nobody would hide anything then. All are stopped by a process that
// enters their namespace, where it can name them all at once.

// pause is whether programs wait, and for what.
type pause struct {
	mu        sync.Mutex
	held      bool // until the watch has caught up
	suspended bool // for as long as this process is stopped
}

// hold stops all programs, or has them go on.
func (l *late) hold(yes bool) error {
	l.pause.mu.Lock()
	defer l.pause.mu.Unlock()
	l.held = yes
	if yes {
		halt.Parents(l.first)
		return l.signal(unix.SIGSTOP)
	}
	halt.GoOn(l.first)
	return l.signal(unix.SIGCONT)
}

// errInTheWay is about programs that stop or kill the process that is to stop them.
var errInTheWay = errors.New("have programs wait: one of them was in the way")

// signal sends a signal to all processes in the jail.
func (l *late) signal(sig unix.Signal) error {
	s := newScript()
	if l.user != nil {
		s.Call(whatSpaces, unix.SYS_SETNS, uintptr(l.user.file), l.user.flag)
	}
	s.Call(whatSpaces, unix.SYS_SETNS, uintptr(l.pids.file), l.pids.flag)
	s.Act("enter the process namespace", steps.Twin)
	all := -1
	s.Call("stop programs", unix.SYS_KILL, uintptr(all), uintptr(sig)).Forgive(0, unix.ESRCH) // there are none
	s.Act("end", steps.Ready)
	done := make(chan struct{})
	defer close(done)
	go l.guard(done)
	switch pid, err := s.Run(); {
	case err == nil:
		// It was killed. Until somebody collects it, its namespace does not end.
		for _, err = unix.Wait4(pid, nil, 0, nil); err == unix.EINTR; {
			_, err = unix.Wait4(pid, nil, 0, nil)
		}
		return errInTheWay
	case !errors.Is(err, steps.ErrReady):
		return fmt.Errorf("have programs wait: %w", err)
	}
	return nil
}

// guard ends everything if a program stops the process that is to stop it: nothing would be
// hidden any more. Landlock keeps programs from that only on Linux 6.12 and later.
func (l *late) guard(done <-chan struct{}) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			if halt.StoppedBelow(os.Getpid(), l.first) {
				l.giveUp(errInTheWay)
				return
			}
		}
	}
}

// suspend is called when the program was seen to be stopped: if it stopped by itself, this
// process does so too, and before that has all others wait.
func (l *late) suspend(program int) {
	if l == nil || l.pids == nil {
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		return
	}
	l.pause.mu.Lock()
	defer l.pause.mu.Unlock()
	if l.held || !halt.Stopped(program) {
		return // it was we who did it
	}
	l.suspended = l.signal(unix.SIGSTOP) == nil
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
}

// goOn is called when this process goes on.
func (l *late) goOn(program int) {
	if l != nil && l.pids != nil {
		l.pause.mu.Lock()
		defer l.pause.mu.Unlock()
		if l.held {
			return // and so will they
		}
		if l.suspended {
			l.suspended = false
			_ = l.signal(unix.SIGCONT)
		}
	}
	_ = unix.Kill(program, unix.SIGCONT)
}

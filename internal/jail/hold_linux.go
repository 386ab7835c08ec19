package jail

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/halt"
	"github.com/cofferhq/coffer/internal/steps"
	"golang.org/x/sys/unix"
)

// Programs wait while files to hide come faster than they can be hidden, and while this process
// is stopped, as at Ctrl-Z: nobody would hide anything then. All are stopped by a process that
// enters their namespace, where it can name them all at once; that they stay so is seen to from
// here, by way of their own /proc.

// pause is whether programs wait, and for what.
type pause struct {
	mu        sync.Mutex
	held      bool // until the watch has caught up
	suspended bool // for as long as this process is stopped
	inside    *halt.Proc
	top       int         // the number of the first program there
	watcher   *halt.Watch // over those who wait; nil before the first time
	unwatch   func()      // ends it; nil if nobody waits
}

// hold stops all programs, or has them go on.
func (l *late) hold(yes bool) error {
	l.pause.mu.Lock()
	defer l.pause.mu.Unlock()
	if err := l.lookInside(); err != nil {
		return err
	}
	l.held = yes
	if !yes {
		if l.unwatch != nil {
			l.unwatch()
			l.unwatch = nil
		}
		all, _ := l.inside.Processes()
		defer l.inside.Asked(all)()
		l.inside.GoOn(l.top)
		return l.signal(unix.SIGCONT)
	}
	l.inside.Parents(l.top)
	if err := l.signal(unix.SIGSTOP); err != nil {
		return err
	}
	if l.unwatch == nil {
		l.unwatch = l.watcher.Begin()
	}
	return nil
}

// errNotInside is about a /proc that is another one than was mounted for the jail.
var errNotInside = errors.New("have programs wait: the jail's /proc is not there")

// lookInside opens the jail's own /proc, the first time. Its numbers are those inside, so that nobody
// outside can be meant by one, whoever ended meanwhile. Programs cannot mount another one there.
func (l *late) lookInside() error {
	if l.inside != nil {
		return nil
	}
	dir, err := unix.Openat2(l.root, "proc", &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: noLinks})
	if err != nil {
		return fmt.Errorf("have programs wait: open the jail's /proc: %w", err)
	}
	var fs unix.Statfs_t
	var theirs, ours unix.Stat_t
	if unix.Fstatfs(dir, &fs) != nil || fs.Type != unix.PROC_SUPER_MAGIC ||
		unix.Fstat(dir, &theirs) != nil || unix.Stat("/proc", &ours) != nil || theirs.Dev == ours.Dev {
		unix.Close(dir)
		return errNotInside
	}
	l.inside, l.top = halt.Of(dir, l.signalOne), halt.Innermost(l.first)
	l.watcher = &halt.Watch{
		Proc: l.inside,
		All: func() []int {
			all, _ := l.inside.Processes()
			return slices.DeleteFunc(all, func(pid int) bool { return pid == 1 }) // who made the namespace
		},
		Ended: l.tell,
		Lost:  func() { l.giveUp(halt.ErrRestless) },
	}
	return nil
}

// errInTheWay is about programs that stop or kill the process that is to stop them.
var errInTheWay = errors.New("have programs wait: one of them was in the way")

// signal sends a signal to all processes in the jail.
func (l *late) signal(sig unix.Signal) error {
	all := -1
	return l.fromInside(unix.SYS_KILL, uintptr(all), uintptr(sig))
}

// signalOne sends a signal to one of them, or to a thread of it, by their numbers inside. Without it
// they would not wait.
func (l *late) signalOne(pid, tid int, sig unix.Signal) (err error) {
	if tid == 0 {
		err = l.fromInside(unix.SYS_KILL, uintptr(pid), uintptr(sig))
	} else {
		err = l.fromInside(unix.SYS_TGKILL, uintptr(pid), uintptr(tid), uintptr(sig))
	}
	if err != nil {
		l.giveUp(err)
	}
	return err
}

// fromInside makes a call that sends a signal, by a process in the namespace of the programs.
func (l *late) fromInside(call uintptr, args ...uintptr) error {
	s := newScript()
	if l.user != nil {
		s.Call(whatSpaces, unix.SYS_SETNS, uintptr(l.user.file), l.user.flag)
	}
	s.Call(whatSpaces, unix.SYS_SETNS, uintptr(l.pids.file), l.pids.flag)
	s.Act("enter the process namespace", steps.Twin)
	s.Call("stop programs", call, args...).Forgive(0, unix.ESRCH) // there are none
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
			if halt.Here.StoppedBelow(os.Getpid(), l.first) {
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
	if l.held || !halt.Here.Stopped(program) {
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

package jail

import (
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/cofferhq/coffer/internal/ui"
	"golang.org/x/sys/unix"
)

// forwarded are the signals that somebody may send to this process and mean the program.
var forwarded = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGCONT,
	// Not these: the terminal sends them to the program too, and if it stops, so do we.
	unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU,
}

// listen begins to collect signals for the program, which need not run yet.
func listen() <-chan os.Signal {
	signals := make(chan os.Signal, 16)
	ui.Hear(signals, forwarded...) // the program ignores the others too
	return signals
}

// collected is how many signals have come so far. Package os/signal hands them out in the
// background; Stop waits until it has.
func collected(signals <-chan os.Signal) int {
	other := make(chan os.Signal, 1)
	signal.Notify(other, unix.SIGURG) // which the runtime sends itself anyway
	signal.Stop(other)
	return len(signals)
}

// running is a program that runs.
type running struct {
	wait   func() (syscall.WaitStatus, error) // until it stops or ends
	signal func(syscall.Signal)
}

// mind stays with a program that shares this process's terminal and process group, and
// returns its exit code, or 128 and the signal that ended it. To a shell the two are one
// job: what the terminal sends reaches both by itself; what is sent to this process alone
// is handed on; when the program stops, this process does.
func (j *jail) mind(r running) (int, error) {
	var interrupted atomic.Bool
	for range collected(j.signals) {
		// It came before there was the program, which no key has reached then; or just
		// after, and it has it twice. Better than not at all.
		s, _ := (<-j.signals).(syscall.Signal)
		interrupted.Store(interrupted.Load() || s == unix.SIGINT)
		r.signal(s)
	}
	var ended atomic.Bool
	go handOn(j.signals, r, &interrupted, &ended)
	for {
		status, err := r.wait()
		switch {
		case err != nil:
			return 0, fmt.Errorf("wait for the program: %w", err)
		case status.Stopped():
			_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		case status.Signaled():
			ended.Store(true)
			// At a key of the terminal the program may have ended before we hear of it.
			if status.Signal() == unix.SIGINT && (interrupted.Load() || inForeground()) {
				ui.Interrupted(false)
			}
			return 128 + int(status.Signal()), nil
		default:
			ended.Store(true)
			return status.ExitStatus(), nil
		}
	}
}

// handOn sends the program what was sent to this process alone, and says of SIGINT that it
// came.
func handOn(signals <-chan os.Signal, r running, interrupted, ended *atomic.Bool) {
	for s := range signals {
		n, _ := s.(syscall.Signal)
		if ended.Load() {
			continue // its number may be another's by now
		}
		switch n {
		case unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU:
		case unix.SIGINT, unix.SIGQUIT:
			if n == unix.SIGINT {
				interrupted.Store(true)
			}
			if !inForeground() {
				r.signal(n)
			}
		default:
			r.signal(n)
		}
	}
}

// inForeground says whether the terminal's keys send signals to this process's group: then
// the program has got its own.
func inForeground() bool {
	tty, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer unix.Close(tty)
	group, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

package attach

import (
	"os"
	"os/signal"
	"time"

	"github.com/cofferhq/coffer/internal/guest/wire"
	"golang.org/x/sys/unix"
)

// When the program on our terminal stops, as at Ctrl-Z, so do we, and the shell that
// started us has the terminal. When it has us go on, the program does.
//
// Whether it stops is for the program to say, and it may say so all the time: the user
// then has the terminal for a second after each fg, and can always end us.
type suspension struct {
	signals chan os.Signal // where ours come
	deaf    bool           // we were told to ignore SIGTSTP
	went    chan struct{}  // we go on

	// The console's lock guards these.
	now   bool
	over  bool      // the program was told to end meanwhile: we want no terminal any more
	since time.Time // when we came back
	keys  int64     // typed until then
	later *time.Timer
}

const (
	// respite is how long after fg a program may not stop us of its own accord.
	respite = time.Second
	// stopTime is how long it may take until we are stopped. If we are not by then, nobody
	// is there who could have us go on: the kernel has ignored it.
	stopTime = 300 * time.Millisecond
	// redrawTime is how long a program has to see that its terminal has another size.
	redrawTime = 150 * time.Millisecond
)

// heed has SIGTSTP come to us, which somebody may send who means the program.
func (c *console) heed(signals chan os.Signal) {
	c.away.signals, c.away.deaf = signals, signal.Ignored(unix.SIGTSTP)
	if !c.away.deaf {
		signal.Notify(signals, unix.SIGTSTP)
	}
}

// stopped is called when the program has stopped.
func (c *console) stopped() {
	if !c.mayStop() {
		return
	}
	c.deafen()
	c.mu.Lock()
	os.Stdout.Write(c.filter.Undo())
	_ = c.state.Restore()
	c.away.now = true
	select {
	case <-c.away.went: // from another time
	default:
	}
	c.mu.Unlock()
	stopGroup(c.away.went)
	if !inForeground() && c.awaitOver() {
		return
	}
	// In the background this stops us once more, until we are in the foreground.
	if err := c.take(); err != nil {
		c.p.Close()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away.now, c.away.over = false, false
	c.away.since, c.away.keys = time.Now(), c.keys.Load()
	c.show()
}

// ending is called when the program is told to end. One that is stopped does not hear it.
func (c *console) ending() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away.now {
		c.away.over = true
		_ = c.p.Signal(unix.SIGCONT)
	}
}

// awaitOver says whether we were continued in the background to end: the signal for that
// comes with the one that had us go on.
func (c *console) awaitOver() bool {
	for end := time.Now().Add(stopTime); !c.isOver() && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	return c.isOver()
}

// isOver says whether we have given back the terminal and do not want it again.
func (c *console) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away.over
}

// inForeground says whether the terminal is ours to use.
func inForeground() bool {
	group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// inBackground says whether our shell has given the terminal to others. Of one that is not
// ours to control nothing is known.
func inBackground() bool {
	group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	return err == nil && group != unix.Getpgrp()
}

// mayStop says whether we stop with the program. If not, it goes on in a while.
func (c *console) mayStop() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	wait := respite - time.Since(c.away.since)
	if !c.away.deaf && (wait <= 0 || c.keys.Load() != c.away.keys) {
		return true
	}
	if c.away.later == nil {
		c.away.later = time.AfterFunc(max(wait, stopTime), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.away.later = nil
			_ = c.p.Signal(unix.SIGCONT)
		})
	}
	return false
}

// asked notes that somebody asks the program to stop.
func (c *console) asked() { c.keys.Add(1) }

// continued is called when we go on after a stop: our own, or one that nobody told us of.
func (c *console) continued() {
	select {
	case c.away.went <- struct{}{}:
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away.now || c.state == nil {
		return
	}
	// The shell has had the terminal, and has set it as it likes.
	_ = c.state.Again()
	os.Stdout.Write(c.filter.Undo())
	c.show()
}

// show has the program go on, on a terminal that speaks as it told it to. One that has the
// whole screen to itself draws it anew when its size changes. The lock is held.
func (c *console) show() {
	os.Stdout.Write(c.filter.Redo())
	now := *size()
	if c.filter.FullScreen() && now.Cols > 1 {
		_ = c.p.Resize(wire.Size{Rows: now.Rows, Cols: now.Cols - 1})
		time.AfterFunc(redrawTime, func() { _ = c.p.Resize(*size()) })
	} else {
		_ = c.p.Resize(now)
	}
	_ = c.p.Signal(unix.SIGCONT)
}

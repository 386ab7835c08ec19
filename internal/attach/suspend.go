package attach

import (
	"os"
	"os/signal"
	"time"

	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// When the program on our terminal stops, as at Ctrl-Z, so do we, and the shell that
// started us has the terminal. When it has us go on, the program does: in the foreground
// with the terminal, in the background (bg) without. There, what it prints is shown as
// lines, nothing is typed to it, and one that has the whole screen stays stopped.
//
// Whether it stops is for the program to say, and it may say so all the time: the user
// then has the terminal for a second after each fg, and can always end us.
type suspension struct {
	deaf bool          // we were told to ignore SIGTSTP
	went chan struct{} // we go on

	// The console's lock guards these.
	now      bool      // the terminal is the shell's
	watching bool      // for when it is ours again
	told     bool      // the program was told to end meanwhile
	done     bool      // the program has ended
	since    time.Time // when it last went on
	keys     int64     // typed until then
	later    *time.Timer
}

const (
	// respite is how long after fg a program may not stop us of its own accord.
	respite = time.Second
	// stopTime is how long it may take until we are stopped. If we are not by then, nobody
	// is there who could have us go on: the kernel has ignored it.
	stopTime = 300 * time.Millisecond
	// redrawTime is how long a program has to see that its terminal has another size.
	redrawTime = 150 * time.Millisecond
	// foregroundTime is how often we look whether we are in the foreground again: a shell
	// does not tell a job that runs.
	foregroundTime = 50 * time.Millisecond
)

// heed has SIGTSTP come to us, which somebody may send who means the program.
func (c *console) heed(signals chan os.Signal) {
	if c.away.deaf = signal.Ignored(unix.SIGTSTP); !c.away.deaf {
		signal.Notify(signals, unix.SIGTSTP)
	}
}

// stopped is called when the program has stopped. What it printed after it went on in the
// background is not waited for: it is read when this returns.
func (c *console) stopped() {
	if !c.mayStop() {
		return
	}
	c.handOver()
	for resumed := true; resumed; {
		resumed = stopGroup(c.away.went)
		if inForeground() {
			c.back()
			return
		}
		// As the kernel would stop a program that draws in the background.
		if !c.filter.FullScreen() || c.awaitTold() {
			break
		}
	}
	c.goOnAside()
}

// handOver leaves the terminal to the shell.
func (c *console) handOver() {
	c.deafen()
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.away.went: // from another time
	default:
	}
	if !c.away.now {
		os.Stdout.Write(c.filter.Undo())
		_ = c.state.Restore()
	}
	c.setAside()
}

// setAside notes that the terminal is the shell's. The lock is held.
func (c *console) setAside() {
	c.state = nil
	c.away.now, c.away.told = true, false
	c.filter.Aside(true)
}

// goOnAside has the program go on in the background.
func (c *console) goOnAside() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.away.now {
		return
	}
	c.away.since, c.away.keys = time.Now(), c.keys.Load()
	_ = c.p.Signal(unix.SIGCONT)
	if !c.away.watching {
		c.away.watching = true
		go c.awaitForeground()
	}
}

// awaitForeground takes the terminal when it is ours again.
func (c *console) awaitForeground() {
	for c.isAway() {
		if inForeground() {
			c.back()
		}
		time.Sleep(foregroundTime)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away.watching = false
}

// back has the program go on, on our terminal.
func (c *console) back() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.away.now || c.away.done {
		return
	}
	if err := c.take(); err != nil {
		c.p.Close()
		return
	}
	c.away.now = false
	c.away.since, c.away.keys = time.Now(), c.keys.Load()
	c.filter.Aside(false)
	c.show()
}

// ending is called when the program is told to end. One that is stopped does not hear it.
func (c *console) ending() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away.now {
		c.away.told = true
		_ = c.p.Signal(unix.SIGCONT)
	}
}

// awaitTold says whether we were continued in the background to end: the signal for that
// comes with the one that had us go on.
func (c *console) awaitTold() bool {
	told := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.away.told
	}
	for end := time.Now().Add(stopTime); !told() && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	return told()
}

// isAway says whether the shell has the terminal, and the program runs or is stopped.
func (c *console) isAway() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away.now && !c.away.done
}

// ended is called when the program has ended. It says whether the terminal is still ours.
func (c *console) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away.done = true
	return !c.away.now
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
	if inBackground() {
		c.setAside()
		go func() {
			c.deafen()
			c.goOnAside()
		}()
		return
	}
	_ = c.state.Again()
	os.Stdout.Write(c.filter.Undo())
	c.show()
}

// show has the program go on, on a terminal that speaks as it told it to. The lock is held.
func (c *console) show() {
	os.Stdout.Write(c.filter.Redo())
	c.drawAnew()
	_ = c.p.Signal(unix.SIGCONT)
}

// drawAnew tells the program its size. One that has the whole screen to itself draws it anew when
// that changes.
func (c *console) drawAnew() {
	now := *size()
	if c.filter.FullScreen() && now.Cols > 1 {
		_ = c.p.Resize(wire.Size{Rows: now.Rows, Cols: now.Cols - 1})
		time.AfterFunc(redrawTime, func() { _ = c.p.Resize(*size()) })
	} else {
		_ = c.p.Resize(now)
	}
}

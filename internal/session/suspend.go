package session

import (
	"time"

	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// A program that stops, as at Ctrl-Z, does so for those who look at it: their commands stop
// too, and it goes on with the first of them that does, or when somebody else comes. If
// nobody is there, nobody could have it go on, and so it does by itself.

// wakeTime is how long a program is stopped that nobody looks at. It may stop itself again
// and again.
const wakeTime = 100 * time.Millisecond

func (k *Session) halt() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.halted = true
	for _, v := range k.viewers {
		v.pause()
	}
	if len(k.viewers) == 0 {
		k.wake()
	}
}

// wake has the program go on, soon. The lock is held.
func (k *Session) wake() {
	if k.waking != nil {
		return
	}
	k.waking = time.AfterFunc(wakeTime, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.waking = nil
		k.goesOn()
		_ = k.p.Signal(unix.SIGCONT)
	})
}

// back is called when a viewer goes on, who has the program go on himself.
func (k *Session) back(v *viewer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.goesOn()
	v.resume()
}

// goesOn notes that the program does. Who has not been told yet that it had stopped need not
// know: his command would stop for nothing. The lock is held.
func (k *Session) goesOn() {
	k.halted = false
	for _, v := range k.viewers {
		v.mu.Lock()
		v.pausing = false
		v.mu.Unlock()
	}
}

// pause tells a viewer, once, that the program has stopped. It is sent nothing more until
// it goes on: it does not read.
func (v *viewer) pause() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pausing = !v.paused
	v.more.Signal()
}

func sayStopped(out *wire.FrameWriter) error { return out.Message(wire.Event{Stopped: true}) }

// resume has a viewer sent what it has missed.
func (v *viewer) resume() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pausing, v.paused = false, false
	v.more.Signal()
}

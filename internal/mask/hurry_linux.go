package mask

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A watch takes what the kernel tells in turn, and programs that see the tree can make the
// queue long: by thousands of files to hide, by links, by directories that have to be looked
// through. A secret of the user's would wait at its end, and could be read. Who made what is
// not known, so there is no fair order. Instead programs are stopped when the watch falls
// behind, until it has caught up.

// holdAfter is how long the watch may be behind before programs are held. A variable for tests.
var holdAfter = 30 * time.Millisecond

// soon is how many bytes of what the kernel has to tell are handled in no time: some dozens of
// entries.
const soon = 4 << 10

// hurry holds programs while a watch is behind.
type hurry struct {
	hold func(bool) error

	mu    sync.Mutex
	timer *time.Timer // runs from when on there was something to do
	held  bool
	err   error // which nobody has heard of yet
}

// begin is called when there is something to do.
func (h *hurry) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hold == nil || h.timer != nil {
		return
	}
	var mine *time.Timer
	mine = time.AfterFunc(holdAfter, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.timer == mine {
			h.stop()
		}
	})
	h.timer = mine
}

// now holds programs at once, and says whether they are held.
func (h *hurry) now() bool {
	h.begin()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hold != nil {
		h.stop()
	}
	return h.held
}

// stop holds programs. The lock is held.
func (h *hurry) stop() {
	if !h.held {
		h.held = true
		h.err = errors.Join(h.err, h.hold(true))
	}
}

// end is called when all is done. It says what has gone wrong since it was called last.
func (h *hurry) end() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
	if h.held {
		h.held = false
		h.err = errors.Join(h.err, h.hold(false))
	}
	err := h.err
	h.err = nil
	return err
}

// caughtUp says that there is little left of what the kernel has to tell.
func (w *watcher) caughtUp() bool {
	n, err := unix.IoctlGetInt(w.fd, unix.TIOCINQ)
	return err != nil || n <= soon
}

// put keeps something to tell until there is more of it, or something else to do.
func (w *watcher) put(f Found, again bool) error {
	f.Again = again
	w.batch = append(w.batch, f)
	if !f.Gone && !f.Keep {
		for _, path := range w.moved.before(f.Path) {
			f.Path, f.Stale = path, true
			w.batch = append(w.batch, f)
		}
	}
	if len(w.batch) < maxTold {
		return nil
	}
	return w.flush()
}

// flush tells what was kept.
func (w *watcher) flush() error {
	if len(w.batch) == 0 {
		return nil
	}
	batch := w.batch
	w.batch = nil
	return w.told(batch)
}

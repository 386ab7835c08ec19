// Package shed lets go of memory that a process does not need while it waits: the pages of its
// own program, of which a start has touched most.
//
// They are the kernel's copy of the file, the same for all processes of coffer, but count for
// each that has them at hand. Who lets go of one and needs it again finds it there, for the price
// of a page fault.
package shed

import (
	"sync"
	"time"
)

// after is how long nothing must have happened.
const after = time.Second

// A Timer lets go some time after it was last told to. The zero value is one.
type Timer struct {
	mu    sync.Mutex
	timer *time.Timer
}

// Soon begins to wait, or begins again.
func (t *Timer) Soon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer == nil {
		t.timer = time.AfterFunc(after, Program)
	} else {
		t.timer.Reset(after)
	}
}

package guest

import (
	"sync"
	"time"
)

// births counts the programs that were asked for and are not there yet. Whoever asks all
// programs to end waits for them first, or they would not hear it.
type births struct {
	mu   sync.Mutex
	due  int
	none chan struct{} // closed when there are none, if somebody waits
}

// begin says that a program is on its way; end, that it is there, or will not be.
func (b *births) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.due++
}

func (b *births) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.due--; b.due == 0 && b.none != nil {
		close(b.none)
		b.none = nil
	}
}

// wait waits until none is on its way, but no longer than some time.
func (b *births) wait(most time.Duration) {
	b.mu.Lock()
	if b.due > 0 && b.none == nil {
		b.none = make(chan struct{})
	}
	none, waits := b.none, b.due > 0
	b.mu.Unlock()
	if !waits {
		return
	}
	select {
	case <-none:
	case <-time.After(most):
	}
}

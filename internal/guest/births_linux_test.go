package guest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Who waits for programs on their way finds them there.
func TestBirths(t *testing.T) {
	var b births
	b.wait(time.Hour) // for nobody
	for range 200 {
		var there atomic.Int32
		var all sync.WaitGroup
		for range 4 {
			b.begin()
			all.Go(func() {
				there.Add(1)
				b.end()
			})
		}
		for range 2 {
			all.Go(func() {
				if b.wait(time.Hour); there.Load() != 4 {
					t.Errorf("%d of 4 were there", there.Load())
				}
			})
		}
		all.Wait()
	}
	b.begin()
	b.wait(time.Millisecond) // one that never comes
	b.end()
	b.wait(time.Hour)
}

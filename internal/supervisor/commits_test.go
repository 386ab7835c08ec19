package supervisor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/git"
)

// A command that cannot wait for commits hears why they did not come before, as one that waited
// does, and the user is told once.
func TestLateAgain(t *testing.T) {
	r := newRepository(&git.Bridge{}, "")
	life, end := context.WithCancel(t.Context())
	c := &commits{life: life, end: end}
	r.turn <- struct{}{} // a sync that does not end
	if s := c.syncWithin(r, time.Millisecond); !errors.Is(s.err, errLate) || !r.late {
		t.Errorf("the first time: %v", s.err)
	}
	locked := errors.New("the repository is locked")
	r.failed = locked
	r.news(r.words(synced{err: locked}), nil)
	late := c.syncWithin(r, time.Hour) // nobody waits for the same sync
	if !errors.Is(late.err, locked) {
		t.Errorf("the second time: %v", late.err)
	}
	if news := r.fresh(r.words(late)); len(news) > 0 {
		t.Errorf("told again: %q", news)
	}
	r.late = false
	end()
	if s := c.syncWithin(r, time.Hour); s.err != nil {
		t.Errorf("at the end: %+v", s)
	}
	c.close()
}

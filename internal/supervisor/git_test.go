package supervisor

import (
	"errors"
	"testing"

	"github.com/cofferhq/coffer/internal/gitbridge"
)

// Who cannot wait for commits hears why they did not come before, as who waited did, and is told
// once: that they are late is no news then.
func TestLateAgain(t *testing.T) {
	g := &git{bridge: &gitbridge.Bridge{}, asks: make(chan chan<- brought)}
	g.begin()
	if b := g.bringOver(pieces); !errors.Is(b.err, errLate) {
		t.Errorf("the first time: %v", b.err)
	}
	locked := errors.New("the repository is locked")
	g.done(locked)
	g.news(g.words(brought{err: locked}), nil)
	g.begin()
	late := g.bringOver(pieces)
	if !errors.Is(late.err, locked) {
		t.Errorf("the second time: %v", late.err)
	}
	if news := g.news(g.words(late), nil); len(news) > 0 {
		t.Errorf("told again: %q", news)
	}
	g.done(nil)
	if b := g.bringOver(pieces); !errors.Is(b.err, errLate) {
		t.Errorf("when it has worked since: %v", b.err)
	}
}

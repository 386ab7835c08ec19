package supervisor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/git"
)

// Who cannot wait for commits hears why they did not come before, as who waited did, and is told
// once: that they are late is no news then.
func TestLateAgain(t *testing.T) {
	g := &commits{bridge: &git.Bridge{}, asks: make(chan chan<- brought)}
	g.begin()
	if b := g.bringOver(time.Millisecond); !errors.Is(b.err, errLate) {
		t.Errorf("the first time: %v", b.err)
	}
	locked := errors.New("the repository is locked")
	g.done(locked)
	g.news(g.words(brought{err: locked}), nil)
	g.begin()
	late := g.bringOver(time.Millisecond)
	if !errors.Is(late.err, locked) {
		t.Errorf("the second time: %v", late.err)
	}
	if news := g.news(g.words(late), nil); len(news) > 0 {
		t.Errorf("told again: %q", news)
	}
	g.done(nil)
	if b := g.bringOver(time.Millisecond); !errors.Is(b.err, errLate) {
		t.Errorf("when it has worked since: %v", b.err)
	}
}

// A command waits for commits until they are there, the sandbox ends, or it has waited for long
// enough; and nobody waits once more for work for which somebody has waited in vain.
func TestWithin(t *testing.T) {
	g := &commits{ended: make(chan struct{}), asks: make(chan chan<- brought)}
	ctx, enough := context.WithCancel(t.Context())
	came := make(chan brought)
	within := func() { came <- g.within(ctx) }
	go within()
	done := <-g.asks
	done <- brought{notes: []string{"all"}}
	if b := <-came; b.err != nil || len(b.notes) != 1 {
		t.Errorf("in time: %+v", b)
	}
	g.begin()
	go within()
	<-g.asks
	enough()
	if b := <-came; b.err != errLate || !g.late() {
		t.Errorf("too late: %+v, and the next one waits: %v", b, !g.late())
	}
	if g.done(nil); g.late() {
		t.Error("it is late with nothing")
	}
	ctx = t.Context()
	go within()
	close(g.ended)
	if b := <-came; b.err != nil {
		t.Errorf("at the end: %+v", b)
	}
}

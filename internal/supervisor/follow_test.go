package supervisor

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Whoever commits again and again is waited for, and not for ever.
func TestLull(t *testing.T) {
	n := 0
	lull(context.Background(), time.Millisecond, func() string { n++; return fmt.Sprint(min(n, 4)) })
	if n < 2 { // less on a machine that stands still
		t.Errorf("%d glances, want 5: until refs stay as they are", n)
	}
	n = 0
	lull(context.Background(), time.Millisecond, func() string { n++; return fmt.Sprint(n) })
	if n < 2 {
		t.Errorf("%d glances while refs move", n)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	lull(ended, time.Hour, func() string { return "" })
}

// Refs of others can wait, unless a program runs. Whoever asks meanwhile is not kept, and is no
// reason to look again at once.
func TestDawdle(t *testing.T) {
	ctx, ask := context.WithCancel(context.Background())
	defer ask()
	if dawdle(ctx, func() bool { return true }) {
		t.Error("a program waits for others' refs")
	}
	looks := 0
	if !dawdle(ctx, func() bool { looks++; return looks > 2 }) || looks != 3 {
		t.Errorf("after %d looks it is not over when a program starts", looks)
	}
	if dawdle(ctx, func() bool { ask(); return false }) {
		t.Error("whoever was called away has rested")
	}
}

// TestSyncPause: only a bridge that has nothing to do and is told of news sleeps, and what
// does not succeed is tried less and less.
func TestSyncPause(t *testing.T) {
	for _, c := range []struct {
		again         int
		failed, blind bool
		quiet         bool
	}{
		{0, false, false, true}, {0, false, true, false}, {1, false, false, false}, {5, true, false, false}, {5, true, true, false},
	} {
		pause, quiet := syncPause(c.again, c.failed, c.blind)
		if quiet != c.quiet || pause < syncEvery || pause > syncRarely {
			t.Errorf("%+v: pause %v, quiet %v", c, pause, quiet)
		}
	}
	if a, _ := syncPause(1, true, false); a != syncEvery {
		t.Error("the second try comes soon, not after", a)
	}
	for _, again := range []int{20, 1 << 30} {
		if a, _ := syncPause(again, true, false); a != syncRarely {
			t.Errorf("try %d after %v", again, a)
		}
		if a, _ := syncPause(again, false, false); a != syncBlind {
			t.Errorf("look %d after %v", again, a)
		}
	}
}

package supervisor

import "testing"

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

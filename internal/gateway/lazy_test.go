package gateway

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestLazyContext(t *testing.T) {
	waited := func(c context.Context) error {
		t.Helper()
		select {
		case <-c.Done():
			return c.Err()
		case <-time.After(time.Minute):
			t.Fatal("the context does not end")
			return nil
		}
	}
	ended := func(t *testing.T, end func(parent context.CancelFunc, l *lazy), limit time.Time, want error) {
		for _, first := range []string{"made before", "made after", "a child waits"} {
			parent, cancel := context.WithCancel(context.Background())
			defer cancel()
			l := &lazy{parent: parent, limit: limit}
			called := make(chan struct{})
			switch first {
			case "made before":
				l.Done()
			case "a child waits":
				context.AfterFunc(l, func() { close(called) })
			}
			if limit.IsZero() && l.Err() != nil {
				t.Fatalf("%s: over before its end: %v", first, l.Err())
			}
			end(cancel, l)
			if limit.IsZero() && !errors.Is(l.Err(), want) {
				t.Errorf("%s: ended with %v instead of %v", first, l.Err(), want)
			}
			if err := waited(l); !errors.Is(err, want) {
				t.Errorf("%s: ended with %v instead of %v", first, err, want)
			}
			if first == "a child waits" {
				select {
				case <-called:
				case <-time.After(time.Minute):
					t.Error("its child was not told")
				}
			}
			child, stop := context.WithCancel(l)
			if child.Err() == nil {
				t.Errorf("%s: a child of it is not over", first)
			}
			stop()
		}
	}
	t.Run("by itself", func(t *testing.T) {
		ended(t, func(_ context.CancelFunc, l *lazy) { l.over(); l.over() }, time.Time{}, context.Canceled)
	})
	t.Run("by its parent", func(t *testing.T) {
		ended(t, func(parent context.CancelFunc, _ *lazy) { parent() }, time.Time{}, context.Canceled)
	})
	t.Run("by time", func(t *testing.T) {
		ended(t, func(context.CancelFunc, *lazy) {}, time.Now().Add(50*time.Millisecond), context.DeadlineExceeded)
	})
	t.Run("within another", func(t *testing.T) {
		outer := &lazy{parent: context.Background()}
		inner := &lazy{parent: outer, limit: time.Now().Add(time.Hour)}
		done := inner.Done()
		outer.over()
		<-done
		if at, ok := inner.Deadline(); !ok || time.Until(at) < time.Minute {
			t.Error("its deadline is", at, ok)
		}
	})
	t.Run("not made", func(t *testing.T) {
		l := &lazy{parent: context.Background(), limit: time.Now().Add(time.Hour)}
		if l.Err() != nil || l.made != nil {
			t.Error("made though nobody waits for it")
		}
		l.over()
		if !errors.Is(l.Err(), context.Canceled) || l.made != nil {
			t.Error("made to be ended")
		}
	})
}

package gateway

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"
)

func TestAnswersAreKept(t *testing.T) {
	r := newResolver()
	asked := 0
	r.ask = func(_ context.Context, name string) ([]netip.Addr, error) {
		asked++
		if name != "one.example.com." && name != "host" && asked < 10 {
			t.Errorf("asked for %s", name)
		}
		return []netip.Addr{public}, nil
	}
	clock := time.Now()
	r.now = func() time.Time { return clock }
	for _, s := range []struct {
		host  string
		later time.Duration
		asked int // of all steps so far
	}{{"one.example.com", 0, 1}, {"one.example.com", keepAnswers - 1, 1}, {"host", 0, 2}, {"one.example.com", 2, 3}} {
		clock = clock.Add(s.later)
		if a, err := r.resolve(t.Context(), s.host); err != nil || len(a) != 1 || asked != s.asked {
			t.Fatalf("%+v: %v, %v, asked %d times", s, a, err, asked)
		}
	}
	for n := range maxAnswers + 10 {
		asked = 10
		r.resolve(t.Context(), fmt.Sprintf("n%d.example.com", n))
	}
	if len(r.kept) > maxAnswers {
		t.Errorf("%d answers are kept", len(r.kept))
	}
}

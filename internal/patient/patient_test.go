package patient

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A wait has a number of pieces, however long each of them was.
func TestCount(t *testing.T) {
	piece := make(chan time.Time)
	pass := func(n int) {
		for range n {
			piece <- time.Now().Add(time.Hour)
		}
	}
	passed := make(chan bool, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { passed <- count(ctx, piece) }()
	pass(pieces)
	if !<-passed {
		t.Error("all have passed, and it is not over")
	}
	go func() { passed <- count(ctx, piece) }()
	pass(pieces - 1)
	cancel()
	if <-passed {
		t.Error("it is over before all have passed")
	}
}

func TestWithTimeout(t *testing.T) {
	ctx, cancel := WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	ctx, cancel = WithTimeout(t.Context(), time.Hour)
	cancel()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	above, end := context.WithCancel(t.Context())
	ctx, cancel = WithTimeout(above, time.Hour)
	defer cancel()
	end()
	<-ctx.Done()
}

// Package patient has time limits for what is waited for and may never come, which hold on a
// machine that stands still for a while: suspended, or with far too much to do. That time, in which
// nobody could have done anything, must not be what uses the patience up. So it is counted in pieces,
// and all the time for which nothing ran is one of them.
package patient

import (
	"context"
	"time"
)

// pieces is how many there are of each wait.
const pieces = 50

// WithTimeout is like context.WithTimeout, counted in pieces. The cause of its end is
// context.DeadlineExceeded then.
func WithTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	tick := time.NewTicker(max(limit/pieces, 1))
	go func() {
		defer tick.Stop()
		if count(ctx, tick.C) {
			cancel(context.DeadlineExceeded)
		}
	}()
	return ctx, func() { cancel(nil) }
}

// count says whether all pieces have passed, before the wait was over.
func count(ctx context.Context, piece <-chan time.Time) bool {
	for range pieces {
		select {
		case <-ctx.Done():
			return false
		case <-piece:
		}
	}
	return true
}

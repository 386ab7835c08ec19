package gateway

import (
	"context"
	"sync"
	"time"
)

// lazy is a context that is made when somebody waits for it. Most connections are made
// without a wait, and for these a context, its timer and its place among the children of
// another one would be the larger part of what making one takes.
//
// Only parent must be set.
type lazy struct {
	parent context.Context
	limit  time.Time // none if zero

	mu    sync.Mutex
	made  context.Context
	end   context.CancelFunc
	ended bool // by over
}

// make makes it, if that has not been done.
func (l *lazy) make() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made == nil {
		if l.limit.IsZero() {
			l.made, l.end = context.WithCancel(l.parent)
		} else {
			l.made, l.end = context.WithDeadline(l.parent, l.limit)
		}
		if l.ended {
			l.end()
		}
	}
	return l.made
}

// over ends it.
func (l *lazy) over() {
	l.mu.Lock()
	l.ended = true
	end := l.end
	l.mu.Unlock()
	if end != nil {
		end()
	}
}

func (l *lazy) Done() <-chan struct{} { return l.make().Done() }

// Value leads to the context that was made, by which package context knows that it is
// one of its own: it would need a goroutine to wait for another.
func (l *lazy) Value(key any) any { return l.make().Value(key) }

func (l *lazy) Deadline() (time.Time, bool) {
	if l.limit.IsZero() {
		return l.parent.Deadline()
	}
	if t, ok := l.parent.Deadline(); ok && t.Before(l.limit) {
		return t, true
	}
	return l.limit, true
}

func (l *lazy) Err() error {
	l.mu.Lock()
	made, ended := l.made, l.ended
	l.mu.Unlock()
	switch {
	case made != nil:
		return made.Err()
	case ended:
		return context.Canceled
	case !l.limit.IsZero() && !time.Now().Before(l.limit):
		return context.DeadlineExceeded
	}
	return l.parent.Err()
}

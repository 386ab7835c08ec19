package supervisor

import (
	"context"
	"time"

	"github.com/cofferhq/coffer/internal/watch"
)

// What programs commit appears outside while they run, and what they left running may
// commit too. The kernel tells when a ref moved: a sandbox in which nothing happens wakes
// nobody, for as long as it lives.
const (
	// syncEvery is the least time between two looks. The first comes that long after the
	// start, so that a short run pays for none.
	syncEvery = 300 * time.Millisecond
	// syncLatest is how long what was committed waits while more is being committed: every
	// look takes a share of the processors from who commits.
	syncLatest = 600 * time.Millisecond
	// syncGlance is how often it is seen meanwhile whether they still move.
	syncGlance = 50 * time.Millisecond
	// syncBlind is how often the refs are looked at where the kernel does not tell.
	syncBlind = 2 * time.Second
	// syncIdle is how long refs of others are let move while no program runs.
	syncIdle = 3 * time.Second
	// syncRarely is how often it is tried again what does not succeed.
	syncRarely = 30 * time.Second
)

// follow brings commits over, when refs move and when somebody asks, until the context or
// the sandbox ends.
func (s *Supervisor) follow(ctx context.Context, g *commits) {
	var refs watch.Watch
	defer refs.Close()
	pause, again, rested := syncEvery, 0, false
	for {
		asked, ok := s.await(ctx, g, func(ctx context.Context) {
			if rested {
				return
			}
			lull(ctx, pause, g.bridge.Glance)
		})
		if !ok {
			return
		}
		rested = false
		g.bridge.Watch(&refs) // before it is looked at: nothing is missed in between
		b := s.sync(ctx, g)
		if asked != nil {
			asked <- b
		}
		_ = g.bridge.Refresh(ctx) // what cannot be read now stays as it was
		if again++; b.err == nil {
			if _, settled := g.bridge.Settled(); settled {
				again = 0
			}
		}
		var quiet bool
		if pause, quiet = syncPause(again, b.err != nil, refs.Blind()); !quiet {
			continue
		}
		if asked, ok = s.await(ctx, g, func(ctx context.Context) {
			refs.Wait(ctx)
			_, settled := g.bridge.Settled()
			rested = settled && dawdle(ctx, s.busy)
		}); !ok {
			return
		}
		if asked != nil {
			asked <- s.sync(ctx, g)
		}
	}
}

// dawdle waits for a while if what has moved concerns nobody: refs of others, in a sandbox in which
// no program runs. Of twenty over one repository all would be busy each time that one of them
// has committed. A program that starts finds the refs as they are then. It says whether it did:
// then they have had time enough to come to rest. Who is called away has not.
func dawdle(ctx context.Context, busy func() bool) bool {
	if busy() {
		return false
	}
	again := time.NewTicker(syncEvery)
	defer again.Stop()
	for n := syncIdle / syncEvery; n > 0 && !busy(); n-- {
		select {
		case <-ctx.Done():
			return false
		case <-again.C:
		}
	}
	return true
}

// lull waits for a pause in which the refs stay as they are, but not for long.
func lull(ctx context.Context, pause time.Duration, glance func() string) {
	now := time.Now()
	still, latest := now, now.Add(max(pause, syncLatest))
	was := glance()
	again := time.NewTicker(max(min(pause, syncGlance), pause/32))
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now = <-again.C:
		}
		if is := glance(); is != was {
			was, still = is, now
		}
		if now.Sub(still) >= pause || now.After(latest) {
			return
		}
	}
}

// syncPause says how long to wait before the next look, and whether to wait for the kernel
// first. again counts how often there was something left to do: that what was done moved
// refs is no news.
func syncPause(again int, failed, blind bool) (pause time.Duration, quiet bool) {
	most := syncBlind
	if failed {
		most = syncRarely
	}
	switch {
	case again > 0:
		return min(syncEvery<<min(again-1, 10), most), false
	case blind:
		return syncBlind, false
	}
	return syncEvery, true
}

// await waits until something is over, or somebody asks.
func (s *Supervisor) await(ctx context.Context, g *commits, until func(context.Context)) (asked chan<- brought, ok bool) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		until(ctx)
	}()
	defer func() { cancel(); <-over }()
	select {
	case <-ctx.Done():
		return nil, false
	case <-s.session.CloseChan():
		return nil, false
	case asked = <-g.asks:
	case <-over:
	}
	return asked, ctx.Err() == nil
}

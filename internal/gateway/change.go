package gateway

import (
	"time"

	"github.com/cofferhq/coffer/internal/policy"
)

// SetPolicy puts other rules in force. Flows that they no longer allow are closed, and
// flows that wait for an answer are decided again.
func (g *Gateway) SetPolicy(set *policy.Set) {
	g.policy.Store(set)
	g.review(time.Now())
	g.asks.reconsider(set)
}

// tick looks at the rules from time to time: some expire.
func (g *Gateway) tick() {
	for g.sleep(g.limits.tick) {
		now := time.Now()
		g.review(now)
		g.sessions.sweep(now)
	}
}

// review closes what the rules do not allow, at a time.
func (g *Gateway) review(now time.Time) {
	set := g.policy.Load()
	g.mu.Lock()
	flows := g.all()
	g.mu.Unlock()
	for _, f := range flows {
		why := f.review(set, now)
		if f.stale(now) {
			why = "idle after one side had ended"
		}
		if why != "" {
			f.end(why)
		}
	}
	g.sessions.review(set, now)
}

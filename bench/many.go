package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// crowd is what many sandboxes side by side cost. Times are milliseconds; each
// is the median of five, so that one disturbed start decides nothing.
type crowd struct {
	Sandboxes   int     `json:"sandboxes"`
	Answered    int     `json:"answered"`
	FirstCreate float64 `json:"first_create_ms"`
	LastCreate  float64 `json:"last_create_ms"`
	Ratio       float64 `json:"ratio"`
	FirstExec   float64 `json:"first_exec_ms"`
	LastExec    float64 `json:"last_exec_ms"`
	RSS         float64 `json:"rss_mb,omitempty"` // of all together
	PSS         float64 `json:"pss_mb,omitempty"`
}

// few is how many starts at either end are taken together.
const few = 5

// measureMany starts sandboxes one after the other and leaves all running: a
// start that searches, locks or copies in proportion to what already runs gets
// slower on the way, and shows.
func measureMany(ctx context.Context, l *lab, res *result) error {
	var creates, execs []time.Duration
	c := &crowd{Sandboxes: l.many}
	for i := range l.many {
		// A workspace each, as in real use, where two agents never share one.
		name := fmt.Sprintf("b%d", i+1)
		dir := filepath.Join(l.dir, "many", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		took, err := l.create(ctx, dir, name)
		if err != nil {
			return err
		}
		creates = append(creates, took)
	}
	for _, name := range l.sandboxes {
		took, err := l.timed(ctx, filepath.Join(l.dir, "many", name), l.coffer, "exec", "-m", name, "--", "true")
		if err != nil {
			fmt.Printf("sandbox %s does not answer: %s\n", name, l.neutral(err.Error()))
			continue
		}
		c.Answered++
		execs = append(execs, took)
	}
	n := min(few, len(creates))
	c.FirstCreate = millis(median(creates[:n]))
	c.LastCreate = millis(median(creates[len(creates)-n:]))
	c.Ratio = round3(c.LastCreate / c.FirstCreate)
	if n = min(few, len(execs)); n > 0 {
		c.FirstExec = millis(median(execs[:n]))
		c.LastExec = millis(median(execs[len(execs)-n:]))
	}
	l.weigh(ctx, c)
	res.Many = c
	fmt.Printf("%d of %d answer; start of the first %.1f ms, of the last %.1f ms (%.2f ×); exec %.1f and %.1f ms; PSS of all %s\n",
		c.Answered, c.Sandboxes, c.FirstCreate, c.LastCreate, c.Ratio, c.FirstExec, c.LastExec, orUnknown(c.PSS, "%.0f MB"))
	return nil
}

// weigh adds up the memory of all sandboxes. It is extra information: if a
// supervisor has gone to sleep meanwhile, the sum is left out.
func (l *lab) weigh(ctx context.Context, c *crowd) {
	var rss, pss float64
	pids, err := l.pids(ctx)
	if err != nil {
		return
	}
	for _, name := range l.sandboxes {
		members, err := family(pids[name])
		if err != nil {
			return
		}
		for id, p := range members {
			rss += p.rss
			share, err := proportional(id)
			if err != nil {
				return
			}
			pss += share
		}
	}
	c.RSS, c.PSS = round3(rss), round3(pss)
}

package gateway

import (
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
)

// Refusals are cheap for a program, so the log takes them at this pace. What is over
// it is counted, and logged as one event that stands for many.
const (
	refusalsAtOnce    = 64
	refusalsPerSecond = 8
)

// journal hands events to the log.
type journal struct {
	add  func(audit.Event)
	mu   sync.Mutex
	left float64 // how many refusals may be logged now
	last time.Time
	over map[string]*audit.Event // refusals that were only counted, by kind
}

func newJournal(add func(audit.Event)) *journal {
	if add == nil {
		add = func(audit.Event) {}
	}
	return &journal{add: add, left: refusalsAtOnce, last: time.Now(), over: map[string]*audit.Event{}}
}

// refused logs an event of which a program can make any number.
func (j *journal) refused(e audit.Event) {
	now := time.Now()
	if e.Time.IsZero() {
		e.Time = now
	}
	j.mu.Lock()
	j.refill(now)
	pass := j.left >= 1
	if pass {
		j.left--
	} else if sum := j.over[e.Kind]; sum != nil {
		sum.Count++
	} else {
		j.over[e.Kind] = &audit.Event{
			Time: e.Time, Kind: e.Kind, Verdict: e.Verdict, Count: 1,
			Detail: "more than the log takes one by one",
		}
	}
	j.mu.Unlock()
	if pass {
		j.add(e)
	}
}

func (j *journal) refill(now time.Time) {
	j.left = min(refusalsAtOnce, j.left+now.Sub(j.last).Seconds()*refusalsPerSecond)
	j.last = now
}

// flush logs what was only counted, if the pace allows or it is the last time.
func (j *journal) flush(now time.Time, last bool) {
	j.mu.Lock()
	j.refill(now)
	var sums []audit.Event
	if last || j.left >= 1 {
		for _, e := range j.over {
			sums = append(sums, *e)
		}
		clear(j.over)
	}
	j.mu.Unlock()
	for _, e := range sums {
		j.add(e)
	}
}

package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// What a program inside does becomes an event, so a program can make as many events as it
// likes: look up random names, connect in a loop. That must not fill memory, and must not
// push the older part of the log out within minutes.
//
// So every kind of event has an allowance of bytes, which is large and grows back slowly:
// by default, 4 MB (about 12,000 events) and 4 kB a second. An event beyond that, or
// beyond what may wait in memory, is not written by itself. It is counted in a summary: an
// event of the same kind, verdict, host and port that says how many it stands for, and
// how many bytes they carried. Summaries are written every ten seconds. There are at most
// 64 at a time; beyond that, the host is left out too. So all numbers stay true, and with
// its 64 MB the log reaches back about an hour even when a program does its worst.
const (
	maxSummaries = 64
	maxKinds     = 32 // kinds that get an allowance of their own
	maxHost      = 255
)

// pace is how fast things go; tests have other wishes.
type pace struct {
	flush   time.Duration // between two writes, and so how long an event waits
	head    time.Duration // how old the head file may get
	summary time.Duration
	retry   time.Duration // after an error
	burst   int           // allowance in bytes, for each kind
	rate    int           // how many bytes of it come back every second
	queue   int           // bytes that may wait in memory
}

var usual = pace{
	flush:   10 * time.Millisecond,
	head:    5 * time.Second,
	summary: 10 * time.Second,
	retry:   time.Second,
	burst:   4 << 20,
	rate:    4 << 10,
	queue:   2 << 20,
}

// allowance is what is left for a kind of event. The last one may overdraw it.
type allowance struct {
	left int
	at   time.Time
}

// allow returns the allowance of a kind, with what came back since it was last asked for.
func (l *Log) allow(kind string, now time.Time) *allowance {
	a := l.allowances[kind]
	if a == nil {
		if len(l.allowances) >= maxKinds {
			kind = kindOther // host code makes kinds, so this does not happen
			a = l.allowances[kind]
		}
		if a == nil {
			a = &allowance{left: l.pace.burst, at: now}
			l.allowances[kind] = a
		}
	}
	back := now.Sub(a.at).Seconds() * float64(l.pace.rate)
	switch {
	case back >= float64(l.pace.burst):
		a.left, a.at = l.pace.burst, now
	case back >= 1:
		a.left, a.at = min(a.left+int(back), l.pace.burst), now
	}
	return a
}

// likeness is what events in one summary have in common.
type likeness struct {
	kind, verdict, host string
	port                uint16
}

// summarise counts an event that is not written by itself.
func (l *Log) summarise(e *Event) {
	s := l.summaries[l.likeness(e)]
	if s == nil {
		if len(l.summaries) == 0 {
			l.summaryAt = time.Now().Add(l.pace.summary)
		}
		k := l.likeness(e)
		// Cloned: what is kept must not keep the memory of a whole request.
		k.kind, k.verdict, k.host = strings.Clone(k.kind), strings.Clone(k.verdict), strings.Clone(k.host)
		s = &Event{
			Time: e.Time, Kind: k.kind, Verdict: k.verdict, Host: k.host, Port: k.port,
			Detail: "too many to write one by one",
		}
		l.summaries[k] = s
	}
	s.Count += max(e.Count, 1)
	s.Sent += e.Sent
	s.Received += e.Received
	s.Duration = max(s.Duration, e.Time.Sub(s.Time))
}

// likeness finds out in which summary an event belongs: the most exact one that exists or
// still has room.
func (l *Log) likeness(e *Event) likeness {
	k := likeness{e.Kind, e.Verdict[:min(len(e.Verdict), maxWord)], e.Host, e.Port}
	if len(k.host) <= maxHost && (l.summaries[k] != nil || len(l.summaries) < maxSummaries) {
		return k
	}
	k.host, k.port = "", 0
	if l.summaries[k] != nil || len(l.summaries) < maxSummaries+maxKinds {
		return k
	}
	return likeness{kind: kindOther} // host code makes kinds and verdicts: there are few
}

// takeSummaries returns the summaries, in order of time, and starts anew.
func (l *Log) takeSummaries() []*Event {
	all := slices.SortedFunc(maps.Values(l.summaries), func(a, b *Event) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Verdict, b.Verdict))
	})
	clear(l.summaries)
	return all
}

// lose counts an event that can be neither written nor kept.
func (l *Log) lose(e *Event) {
	kind := e.Kind
	if _, ok := l.lost[kind]; !ok && len(l.lost) >= maxKinds {
		kind = kindOther
	}
	l.lost[kind] += max(e.Count, 1)
}

// takeLost returns an event about those that were lost, nil if none were.
func (l *Log) takeLost() *Event {
	if len(l.lost) == 0 {
		return nil
	}
	e := &Event{Time: time.Now(), Kind: KindLost, Reason: l.why}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(l.lost)) {
		e.Count += l.lost[kind]
		parts = append(parts, fmt.Sprintf("%s %d", kind, l.lost[kind]))
	}
	e.Detail = strings.Join(parts, ", ")
	clear(l.lost)
	return e
}

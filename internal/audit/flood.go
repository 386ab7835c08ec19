package audit

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/policy"
)

// What a program inside does becomes an event, so a program can make as many events as it
// likes: look up random names, connect in a loop. That must not fill memory, and must not
// push the older part of the log out within minutes.
//
// So every kind of event has an allowance of bytes, which is large and grows back slowly:
// by default, 4 MB (about 12,000 events) and 4 kB a second. An event beyond that, or
// beyond what may wait in memory, is not written by itself. It is counted in a summary: an
// event of the same kind, verdict, host and port that says how many it stands for, and
// how many bytes they carried. There are at most 64 at a time; beyond that, the host is
// left out too. So all numbers stay true, and with its 64 MB the log reaches back about an
// hour even when a program does its worst.
//
// Outside of the allowance, the first connection to each host has a line, whatever the port, up to
// a number that holds for allowed ones, refused ones and refused addresses that are not on the
// internet each: no flood of one sort hides another. A cloud's metadata service always has one.
const (
	maxSummaries    = 64
	maxHost         = 255
	maxDestinations = 4096
)

type flood struct {
	pace       pace
	allowances map[string]*allowance
	summaries  map[likeness]*Event
	seen       [4]map[destination]bool // allowed, refused, refused and special, refused metadata
}

// destination is where a connection was to go.
type destination struct {
	host string
	addr netip.Addr // of one without a name
}

// allowance is what is left for a kind of event. The last one may overdraw it.
type allowance struct {
	left int
	at   time.Time
}

// likeness is what events in one summary have in common. Kinds and verdicts come from
// coffer itself, so there are few.
type likeness struct {
	kind, verdict, host string
	port                uint16
}

func newFlood(p pace) flood {
	return flood{pace: p, allowances: map[string]*allowance{}, summaries: map[likeness]*Event{}}
}

// isNew says whether an event is the first about its destination, and remembers it.
func (f *flood) isNew(e *Event) bool {
	if e.Kind != KindFlow || len(e.Host) > maxHost {
		return false
	}
	sort, d := 0, destination{host: e.Host}
	if d.host == "" {
		d.addr = e.Addr
	}
	switch {
	case e.Verdict != "deny":
	case policy.IsMetadata(e.Addr):
		sort, d = 3, destination{addr: e.Addr}
	case e.Addr.IsValid() && (!e.Addr.IsGlobalUnicast() || e.Addr.IsPrivate()):
		sort = 2
	default:
		sort = 1
	}
	if f.seen[sort][d] || len(f.seen[sort]) >= maxDestinations {
		return false
	}
	if f.seen[sort] == nil {
		f.seen[sort] = map[destination]bool{}
	}
	d.host = strings.Clone(d.host) // which may be part of a whole request
	f.seen[sort][d] = true
	return true
}

// allow returns the allowance of a kind, with what came back since it was last asked for.
func (f *flood) allow(kind string, now time.Time) *allowance {
	a := f.allowances[kind]
	if a == nil {
		a = &allowance{left: f.pace.burst, at: now}
		f.allowances[kind] = a
	}
	back := now.Sub(a.at).Seconds() * float64(f.pace.rate)
	switch {
	case back >= float64(f.pace.burst):
		a.left, a.at = f.pace.burst, now
	case back >= 1:
		a.left, a.at = min(a.left+int(back), f.pace.burst), now
	}
	return a
}

// summarise counts an event that is not written by itself.
func (f *flood) summarise(e *Event) {
	k := likeness{e.Kind, e.Verdict, e.Host, e.Port}
	if f.summaries[k] == nil && (len(f.summaries) >= maxSummaries || len(k.host) > maxHost) {
		k.host, k.port = "", 0
	}
	s := f.summaries[k]
	if s == nil {
		k.host = strings.Clone(k.host) // which may be part of a whole request
		s = &Event{
			Time: e.Time, Kind: k.kind, Verdict: k.verdict, Host: k.host, Port: k.port,
			Detail: "too many to write one by one",
		}
		f.summaries[k] = s
	}
	s.Count += max(e.Count, 1)
	s.Sent += e.Sent
	s.Received += e.Received
	s.Duration = max(s.Duration, e.Time.Sub(s.Time))
}

// take returns the summaries, in order of time, and starts anew.
func (f *flood) take() (all []Event) {
	for _, e := range slices.SortedFunc(maps.Values(f.summaries), func(a, b *Event) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Verdict, b.Verdict))
	}) {
		all = append(all, *e)
	}
	clear(f.summaries)
	return all
}

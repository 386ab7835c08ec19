package gateway

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// A Denial is a refusal as users see it, or that what was allowed could not be reached. What programs inside have chosen (Method,
// Path) is theirs: it must be escaped before a terminal shows it.
type Denial struct {
	Time     time.Time  `json:"time"`
	Host     string     `json:"host"` // name, or the address that was meant
	Addr     netip.Addr `json:"addr,omitzero"`
	Port     uint16     `json:"port,omitempty"` // 0: the name was not even resolved
	Protocol string     `json:"protocol,omitempty"`
	Method   string     `json:"method,omitempty"`
	Path     string     `json:"path,omitempty"`
	Rule     string     `json:"rule,omitempty"`
	Reason   string     `json:"reason"`
	Allow    string     `json:"allow,omitempty"` // the command that would allow it
	Count    int64      `json:"count"`           // how often, in a row
}

const (
	keptDenials = 100
	toldDenials = 1024 // destinations of which it is known when the user was told
	tellAgain   = time.Minute
	// newNames is how many names are new in a minute: a program can make up any number,
	// and those must not push the others out.
	newNames = 20
)

// denials keeps the latest refusals and tells the user of them, not too often.
type denials struct {
	tell func(Denial)
	mu   sync.Mutex
	last []Denial // oldest first
	told map[place]time.Time

	names int // new ones since
	since time.Time
}

type place struct {
	host string
	port uint16
}

func newDenials(tell func(Denial)) *denials {
	return &denials{tell: tell, told: map[place]time.Time{}}
}

func (l *denials) add(d Denial) {
	l.mu.Lock()
	l.keep(d)
	news := l.news(place{d.Host, d.Port}, d.Time)
	l.mu.Unlock()
	if news && l.tell != nil {
		l.tell(d)
	}
}

// addName adds the refusal of a name that was looked up.
func (l *denials) addName(d Denial) {
	l.mu.Lock()
	if d.Time.Sub(l.since) >= time.Minute {
		l.names, l.since = 0, d.Time
	}
	known := slices.ContainsFunc(l.last, func(was Denial) bool { return was.Host == d.Host && was.Port == 0 })
	if !known {
		l.names++
	}
	over := l.names > newNames
	l.mu.Unlock()
	if known || !over {
		l.add(d)
	}
}

// keep adds to the list. The same again moves to the end and is counted.
func (l *denials) keep(d Denial) {
	for n := range l.last {
		was := &l.last[n]
		if was.Host == d.Host && was.Port == d.Port && was.Rule == d.Rule && was.Method == d.Method && was.Path == d.Path {
			d.Count += was.Count
			l.last = slices.Delete(l.last, n, n+1)
			break
		}
	}
	if len(l.last) == keptDenials {
		l.last = slices.Delete(l.last, 0, 1)
	}
	l.last = append(l.last, d)
}

// Retell has the user told again of destinations that he was told of a moment ago: there
// is somebody new to tell.
func (g *Gateway) Retell() {
	g.denials.retell()
	g.failures.retell()
}

func (l *denials) retell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.told)
}

// news says whether the user has not been told of a place for a while.
func (l *denials) news(p place, now time.Time) bool {
	if last, ok := l.told[p]; ok && now.Sub(last) < tellAgain {
		return false
	}
	if len(l.told) >= toldDenials {
		for p, last := range l.told {
			if now.Sub(last) >= tellAgain {
				delete(l.told, p)
			}
		}
		if len(l.told) >= toldDenials {
			return false
		}
	}
	l.told[p] = now
	return true
}

func (l *denials) list() []Denial {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.last)
}

// Denials returns the latest refusals, the oldest first.
func (g *Gateway) Denials() []Denial { return g.denials.list() }

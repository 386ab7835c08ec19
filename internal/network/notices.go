package network

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/gateway"
	"github.com/cofferhq/coffer/internal/policy"
)

const (
	// mostRefusals is how many refusals are shown in refusalsIn: a program that tries a
	// thousand hosts must not bury what the user reads.
	mostRefusals = 8
	refusalsIn   = 30 * time.Second
)

// refusals counts the refusals that were shown.
type refusals struct {
	mu    sync.Mutex
	since time.Time
	n     int
}

// next counts one more, and says how many there are in the present period.
func (r *refusals) next() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.since) >= refusalsIn {
		r.since, r.n = now, 0
	}
	r.n++
	return r.n
}

func (r *refusals) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n = 0
}

// denied shows a refusal, and how to lift it.
func (n *Network) denied(d gateway.Denial) {
	line := fmt.Sprintf("refused %s: %s", destination(d.Host, d.Addr, d.Port), d.Reason)
	if d.Allow != "" {
		line += "; to allow it: " + d.Allow
	} else if !n.fleeting {
		line += "; see 'coffer policy show --sandbox " + n.sb.Name + "'"
	}
	n.refuse(line, "more is refused than is shown here")
}

// unreached shows a destination that is allowed but does not answer.
func (n *Network) unreached(d gateway.Denial) {
	n.refuse(fmt.Sprintf("could not reach %s, which is allowed: %s", destination(d.Host, d.Addr, d.Port), d.Reason),
		"more cannot be reached than is shown here")
}

func (n *Network) refuse(line, more string) {
	switch count := n.refusals.next(); {
	case count <= mostRefusals:
		n.o.Tell(line)
	case count == mostRefusals+1:
		if !n.fleeting {
			more += ": see 'coffer policy log --sandbox " + n.sb.Name + "'"
		}
		n.o.Tell(more)
	}
}

// allowCommand is the command that allows a target.
func (n *Network) allowCommand(target, protocol string) string {
	if n.fleeting {
		if protocol != "" {
			target += "/" + protocol
		}
		return "coffer run --allow " + target + " …"
	}
	if protocol != "" {
		target += " --protocol " + protocol
	}
	return "coffer policy allow " + target + " --sandbox " + n.sb.Name
}

// asked shows a new question.
func (n *Network) asked(r gateway.Request) { n.o.Tell(n.question(r)) }

func (n *Network) question(r gateway.Request) string {
	what := Describe(r) + " waits for your answer"
	if r.Filed {
		what = "a program asks for " + Describe(r)
	}
	return fmt.Sprintf("%s, until %s: coffer policy answer %d allow --sandbox %s (or deny)",
		what, r.Until.Local().Format(time.TimeOnly), r.ID, n.sb.Name)
}

// Describe says what a question is about, all that a lasting answer would be about.
func Describe(r gateway.Request) string {
	if r.What != "" {
		return r.What
	}
	text := destination(r.Host, r.Addr, r.Port)
	switch {
	case r.Protocol == policy.UDP:
		text += " by UDP"
	case r.Method != "":
		text = r.Method + " " + r.Path + " of " + text
	}
	return text
}

// destination is a host and port as a target is written.
func destination(host string, addr netip.Addr, port uint16) string {
	if addr.IsValid() && (host == "" || host == addr.String()) {
		host = addr.String()
		if port > 0 {
			return netip.AddrPortFrom(addr, port).String()
		}
	}
	if port == 0 {
		return host
	}
	return fmt.Sprintf("%s:%d", host, port)
}

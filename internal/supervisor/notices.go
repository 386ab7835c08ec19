package supervisor

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/gateway"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/wire"
)

// denied tells the user of a refusal, and how to lift it.
func (s *Supervisor) denied(d gateway.Denial) {
	line := fmt.Sprintf("refused %s: %s", destination(d.Host, d.Addr, d.Port), d.Reason)
	if d.Allow != "" {
		line += "; to allow it: " + d.Allow
	} else if !s.fleeting() {
		line += "; see 'coffer policy show --sandbox " + s.Sandbox.Name + "'"
	}
	more := "more is refused than is shown here"
	if !s.fleeting() {
		more += ": see 'coffer policy log --sandbox " + s.Sandbox.Name + "'"
	}
	s.notices.refused(line, more)
}

// unreached tells the user that what is allowed cannot be had.
func (s *Supervisor) unreached(d gateway.Denial) {
	more := "more cannot be reached than is shown here"
	if !s.fleeting() {
		more += ": see 'coffer policy log --sandbox " + s.Sandbox.Name + "'"
	}
	s.notices.refused(notReached(d), more)
}

func notReached(d gateway.Denial) string {
	return fmt.Sprintf("could not reach %s, which is allowed: %s", destination(d.Host, d.Addr, d.Port), d.Reason)
}

// fleeting says that the sandbox is gone when the user has read what it refused: advice
// must be for the next one.
func (s *Supervisor) fleeting() bool { return s.Sandbox.Ephemeral || s.Sandbox.Once }

// allowCommand is how the user allows a target.
func (s *Supervisor) allowCommand(target, protocol string) string {
	if s.fleeting() {
		if protocol != "" {
			target += "/" + protocol
		}
		return "coffer run --allow " + target + " …"
	}
	if protocol != "" {
		target += " --protocol " + protocol
	}
	return "coffer policy allow " + target + " --sandbox " + s.Sandbox.Name
}

// asked tells the user of a question.
func (s *Supervisor) asked(r gateway.Request) {
	what := Describe(r) + " waits for your answer"
	if r.Filed {
		what = "a program asks for " + Describe(r)
	}
	s.notices.tell(fmt.Sprintf("%s, until %s: coffer policy answer %d allow --sandbox %s (or deny)",
		what, r.Until.Local().Format(time.TimeOnly), r.ID, s.Sandbox.Name))
}

// notices are lines for the user. Who does not listen misses all but the latest: they are
// in the audit log as well.
type notices struct {
	mu        sync.Mutex
	listeners map[chan string]bool
	latest    []notice
	unheard   []string  // what is told once, and was told to nobody
	since     time.Time // when refusals were last counted anew
	refusals  int
	somebody  chan struct{} // closed when somebody listens, if that is waited for
}

type notice struct {
	at   time.Time
	line string
}

const (
	// mostRefusals is how many refusals are told in refusalsIn: a program that tries a
	// thousand hosts is not to bury what the user reads.
	mostRefusals = 8
	refusalsIn   = 30 * time.Second
	// keptNotices are for who begins to listen a moment later.
	keptNotices = 16
)

// refused tells of a refusal or, if there are too many, once that there are more.
func (n *notices) refused(line, more string) {
	n.mu.Lock()
	if now := time.Now(); now.Sub(n.since) >= refusalsIn {
		n.since, n.refusals = now, 0
	}
	n.refusals++
	count := n.refusals
	n.mu.Unlock()
	switch {
	case count <= mostRefusals:
		n.tell(line)
	case count == mostRefusals+1:
		n.tell(more)
	}
}

// anew is for a program that was just started: what was told about another one is news
// to who waits for it.
func (s *Supervisor) anew() {
	if s.network == nil {
		return
	}
	s.network.gateway.Retell()
	s.notices.mu.Lock()
	defer s.notices.mu.Unlock()
	s.notices.refusals = 0
}

func (n *notices) tell(line string) { n.add(terminal.Escape(line)) }

// once tells what is not told again. If nobody listens, or who does has more to read than he can,
// it is for who does next, whenever that is.
func (n *notices) once(line string) {
	if n.tellNow(line) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.unheard) < keptNotices {
		n.unheard = append(n.unheard, line)
	}
}

// left is what was told once and nobody has heard.
func (n *notices) left() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.unheard)
}

// tellNow tells who listens, if anybody does and has not more to read than he can.
func (n *notices) tellNow(line string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.listeners) > 0 && n.put(terminal.Escape(line))
}

// urge tells what cannot wait until a program gives the screen back.
func (n *notices) urge(line string) { n.add(wire.Urgent + terminal.Escape(line)) }

func (n *notices) add(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.put(line)
}

// put is add for who has the lock. It says whether somebody gets the line.
func (n *notices) put(line string) (heard bool) {
	if len(n.latest) == keptNotices {
		n.latest = slices.Delete(n.latest, 0, 1)
	}
	n.latest = append(n.latest, notice{time.Now(), line})
	for c := range n.listeners {
		select {
		case c <- line:
			heard = true
		default: // the terminal is slow, and more lines would not help
		}
	}
	return heard
}

// heard is closed when there is somebody who listens.
func (n *notices) heard() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.somebody
	if c == nil {
		c = make(chan struct{})
		if len(n.listeners) > 0 {
			close(c)
		} else {
			n.somebody = c
		}
	}
	return c
}

// listen gives the lines since a time, and from now on, until stop is called.
func (n *notices) listen(since time.Time) (lines <-chan string, stop func()) {
	c := make(chan string, 2*keptNotices)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.latest {
		if !l.at.Before(since) {
			c <- l.line
		}
	}
	for _, line := range n.unheard {
		c <- terminal.Escape(line)
	}
	n.unheard = nil
	if n.listeners == nil {
		n.listeners = map[chan string]bool{}
	}
	n.listeners[c] = true
	if n.somebody != nil {
		close(n.somebody)
		n.somebody = nil
	}
	return c, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.listeners, c)
	}
}

// Watch shows the lines there are and all that come, until stop, which returns when
// everything that was told is shown.
func (s *Supervisor) Watch(show func(line string)) (stop func(failed bool)) {
	lines, leave := s.notices.listen(time.Time{})
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		pour(lines, done, func(line string) bool { show(line); return true })
	}()
	return func(bool) {
		leave()
		close(done)
		<-ended
	}
}

// pour hands lines on until it is done, and then those that are left, or until somebody
// takes no more.
func pour(lines <-chan string, done <-chan struct{}, to func(string) bool) {
	for {
		select {
		case line := <-lines:
			if !to(line) {
				return
			}
			continue
		default:
		}
		select {
		case line := <-lines:
			if !to(line) {
				return
			}
		case <-done:
			for {
				select {
				case line := <-lines:
					if !to(line) {
						return
					}
				default:
					return
				}
			}
		}
	}
}

// watch serves OpWatch. A client that says that it has nothing more to say gets what
// there is, and the end.
func (s *Supervisor) watch(client net.Conn, since time.Time) {
	lines, stop := s.notices.listen(since)
	defer stop()
	if why := s.frozen(); why != "" { // which may have been told long ago
		_ = wire.WriteMessage(client, wire.Event{Notice: wire.Urgent + terminal.Escape(why)})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = client.Read(make([]byte, 1))
		stop() // what comes from now on is for others
	}()
	pour(lines, done, func(line string) bool {
		return wire.WriteMessage(client, wire.Event{Notice: line}) == nil
	})
}

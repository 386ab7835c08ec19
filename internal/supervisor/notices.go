package supervisor

import (
	"net"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/wire"
)

// notices are lines for the user that no command asked for. Commands listen while their program
// runs. A listener that comes late sees the latest of them only: they are in the audit log as
// well.
type notices struct {
	mu        sync.Mutex
	listeners map[chan string]bool
	latest    []notice
	unheard   []unheard // those of once that nobody has heard
}

type notice struct {
	at   time.Time
	line string
}

// An unheard is a line that waits for a listener.
type unheard struct {
	line  string
	heard func() // nil, or called when somebody hears it
}

// keptNotices is how many lines are kept for listeners that come a moment later.
const keptNotices = 16

// tell shows a line to whoever listens now.
func (n *notices) tell(line string) { n.add(terminal.Escape(line)) }

// urge shows a line that cannot wait until a program gives the screen back.
func (n *notices) urge(line string) { n.add(wire.Urgent + terminal.Escape(line)) }

// once shows a line that is not repeated. If nobody listens, the next listener gets it. heard, if
// any, is called when somebody does.
func (n *notices) once(line string, heard func()) {
	n.mu.Lock()
	told := len(n.listeners) > 0 && n.put(terminal.Escape(line))
	if !told && len(n.unheard) < keptNotices {
		n.unheard = append(n.unheard, unheard{line, heard})
	}
	n.mu.Unlock()
	if told && heard != nil {
		heard()
	}
}

// left takes the lines of once that nobody has heard.
func (n *notices) left() (lines []string) {
	n.mu.Lock()
	list := n.unheard
	n.unheard = nil
	n.mu.Unlock()
	for _, u := range list {
		if lines = append(lines, u.line); u.heard != nil {
			u.heard()
		}
	}
	return lines
}

func (n *notices) add(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.put(line)
}

// put is add with the lock held. It says whether somebody gets the line.
func (n *notices) put(line string) (heard bool) {
	n.latest = append(n.latest, notice{time.Now(), line})
	n.latest = n.latest[max(0, len(n.latest)-keptNotices):]
	for c := range n.listeners {
		select {
		case c <- line:
			heard = true
		default: // the terminal is slow, and more lines would not help
		}
	}
	return heard
}

// listen returns the lines since a time, and from now on, until stop is called, which closes the
// channel.
func (n *notices) listen(since time.Time) (lines <-chan string, stop func()) {
	c := make(chan string, 2*keptNotices)
	unheard := n.left()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.latest {
		if !l.at.Before(since) {
			c <- l.line
		}
	}
	for _, line := range unheard {
		c <- terminal.Escape(line)
	}
	if n.listeners == nil {
		n.listeners = map[chan string]bool{}
	}
	n.listeners[c] = true
	return c, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.listeners[c] {
			delete(n.listeners, c)
			close(c)
		}
	}
}

// Watch shows all lines until stop, which returns when everything is shown.
func (s *Supervisor) Watch(show func(line string)) (stop func(failed bool)) {
	lines, leave := s.notices.listen(time.Time{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for line := range lines {
			show(line)
		}
	}()
	return func(bool) {
		leave()
		<-ended
	}
}

// LastWords are lines for the user that nobody has heard, among them those about what was found
// when the sandbox had ended.
func (s *Supervisor) LastWords() []string { return s.notices.left() }

// serve serves OpWatch. A client that closes its direction gets what there is, and the end.
func (n *notices) serve(client net.Conn, since time.Time, first string) {
	lines, stop := n.listen(since)
	defer stop()
	if first != "" {
		_ = wire.WriteMessage(client, wire.Event{Notice: wire.Urgent + terminal.Escape(first)})
	}
	go func() {
		_, _ = client.Read(make([]byte, 1))
		stop()
	}()
	for line := range lines {
		if wire.WriteMessage(client, wire.Event{Notice: line}) != nil {
			return
		}
	}
}

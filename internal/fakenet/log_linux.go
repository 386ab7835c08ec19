package fakenet

import (
	"bytes"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Log has an entry for every connection, datagram and DNS question that reached a
// server, as one text: what kind of server, the address it was reached at, what it was
// told.
//
//	http 20.0.0.1:80 GET / HTTP/1.1…
type Log struct {
	mu      sync.Mutex
	entries []*entry
	flushes int
}

type entry struct {
	log   *Log
	text  bytes.Buffer
	ended bool
}

// maxText bounds what is remembered of one connection.
const maxText = 64 << 10

func (l *Log) add(kind string, at net.Addr) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &entry{log: l}
	fmt.Fprintf(&e.text, "%s %s ", kind, plain(at))
	l.entries = append(l.entries, e)
	return e
}

// plain is an address without the prefix of mapped ones.
func plain(a net.Addr) string {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap().String() + fmt.Sprint(":", a.Port)
	case *net.UDPAddr:
		return a.AddrPort().Addr().Unmap().String() + fmt.Sprint(":", a.Port)
	}
	return a.String()
}

func (e *entry) say(b []byte) {
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	if room := maxText - e.text.Len(); room > 0 {
		e.text.Write(b[:min(len(b), room)])
	}
}

func (e *entry) end() {
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	e.ended = true
}

// Seen says whether an entry matches a regular expression, in which a dot stands for
// line ends too.
func (l *Log) Seen(pattern string) bool {
	re := regexp.MustCompile("(?s)" + pattern)
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.entries, func(e *entry) bool { return re.Match(e.text.Bytes()) })
}

// Count says how many entries match.
func (l *Log) Count(pattern string) (n int) {
	re := regexp.MustCompile("(?s)" + pattern)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if re.Match(e.text.Bytes()) {
			n++
		}
	}
	return n
}

// String is all of it, for a test that fails.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, e := range l.entries {
		fmt.Fprintf(&b, "%.300q\n", e.text.String())
	}
	return b.String()
}

// Reset forgets everything.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}

// Flush waits until all that was sent before has been written down: it says a word to
// every server itself, and waits until it is there and until no other connection is open.
func (l *Log) Flush() error {
	l.mu.Lock()
	l.flushes++
	word := fmt.Sprintf("flush-%d-", l.flushes)
	l.mu.Unlock()
	n := 0
	for _, s := range services {
		for _, port := range s.ports {
			for _, host := range []string{"127.0.0.1", "::1"} {
				c, err := net.Dial(s.network, net.JoinHostPort(host, fmt.Sprint(port)))
				if err != nil {
					return err
				}
				fmt.Fprintf(c, "%s%d\n", word, n)
				c.Close()
				n++
			}
		}
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if l.Count(word) == n && l.idle() {
			return nil
		}
	}
	return fmt.Errorf("the log does not come to rest:\n%s", l)
}

func (l *Log) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !slices.ContainsFunc(l.entries, func(e *entry) bool { return !e.ended })
}

// tapped is a connection of which all that is read is written down.
type tapped struct {
	net.Conn
	entry *entry
}

func (c tapped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.entry.say(b[:n])
	return n, err
}

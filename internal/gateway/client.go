package gateway

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/cofferhq/coffer/internal/gateway/sniff"
	"github.com/cofferhq/coffer/internal/link"
)

// client is the program's end of a flow, with what was read of it and not passed on yet.
type client struct {
	link.Conn
	ahead   []byte
	reserve *reserve
	held    int       // of the reserve, for ahead
	most    int       // how long ahead may get; zero: maxAhead
	begun   time.Time // when the first byte of ahead came
}

const (
	firstRead = 2 << 10
	// maxAhead is more than any head may have, so that it is the parsers that say no.
	maxAhead = 2 * max(sniff.MaxHello, sniff.MaxHTTP)
	// maxReads bounds in how many pieces a ClientHello may come.
	maxReads = 1024
)

var errTooLong = errors.New("too many bytes before a decision")

// more reads once and adds to what was read ahead.
func (c *client) more() error {
	if len(c.ahead) == cap(c.ahead) {
		size := max(2*cap(c.ahead), firstRead)
		switch {
		case size > maxAhead || c.most > 0 && size > c.most:
			return errTooLong
		case !c.claim(size):
			return errFull
		}
		c.ahead = append(make([]byte, 0, size), c.ahead...)
	}
	n, err := c.Conn.Read(c.ahead[len(c.ahead):cap(c.ahead)])
	if n <= 0 {
		if err == nil {
			err = io.ErrNoProgress
		}
		return err
	}
	if len(c.ahead) == 0 {
		c.begun = time.Now()
	}
	c.ahead = c.ahead[:len(c.ahead)+n]
	return nil
}

// drop forgets the first n bytes read ahead: they were passed on.
func (c *client) drop(n int) {
	rest := len(c.ahead) - n
	if rest == 0 {
		c.forget() // an idle connection keeps no buffer
		return
	}
	copy(c.ahead, c.ahead[n:])
	c.ahead = c.ahead[:rest]
	c.begun = time.Now()
}

// forget drops all that was read ahead.
func (c *client) forget() {
	c.ahead = nil
	c.claim(0)
}

// claim takes what a buffer has beyond a first read from the reserve. It says no, and changes
// nothing, if more is not to be had.
func (c *client) claim(capacity int) bool {
	n := max(0, capacity-firstRead)
	if !c.reserve.take(n - c.held) {
		return false
	}
	c.held = n
	return true
}

// first waits for enough bytes to tell what the program speaks. wait bounds the time
// to the first byte if it is not zero, and headTime the time from there.
func (c *client) first(wait, headTime time.Duration) (sniff.Kind, error) {
	defer c.SetReadDeadline(time.Time{})
	if wait > 0 && len(c.ahead) == 0 {
		_ = c.SetReadDeadline(time.Now().Add(wait))
	}
	for range maxReads {
		if len(c.ahead) > 0 {
			if kind := sniff.Classify(c.ahead); kind != sniff.NeedMore {
				return kind, nil
			}
			_ = c.SetReadDeadline(c.begun.Add(headTime))
		}
		if err := c.more(); errors.Is(err, io.EOF) {
			return sniff.Unknown, nil // whatever it was to be, it is over
		} else if err != nil {
			return sniff.NeedMore, err
		}
	}
	return sniff.NeedMore, errTooLong
}

// hello reads a whole ClientHello, without taking it from what was read ahead.
func (c *client) hello(headTime time.Duration) (sniff.Hello, error) {
	_ = c.SetReadDeadline(c.begun.Add(headTime))
	defer c.SetReadDeadline(time.Time{})
	for reads := 0; ; {
		hello, need, err := sniff.ParseClientHello(c.ahead)
		if err != nil || need == 0 {
			return hello, err
		}
		for want := len(c.ahead) + need; len(c.ahead) < want; reads++ {
			if reads == maxReads {
				return hello, &sniff.Error{Alert: sniff.AlertDecodeError, Msg: "the ClientHello comes in too many pieces"}
			}
			if err := c.more(); err != nil {
				return hello, err
			}
		}
	}
}

// request reads the head of an HTTP request, without taking it from what was read ahead.
// There is no bound on how long the first byte may take: until then the connection is idle.
func (c *client) request(headTime time.Duration) (sniff.Request, error) {
	defer c.SetReadDeadline(time.Time{})
	for {
		// Line ends that are not HTTP's count too: it is for the parser to refuse them.
		ended := bytes.Contains(c.ahead, []byte("\n\r\n")) || bytes.Contains(c.ahead, []byte("\n\n"))
		if ended || len(c.ahead) >= sniff.MaxHTTP {
			r, need, err := sniff.ParseHTTP(c.ahead)
			if err == nil && need > 0 {
				err = &sniff.Error{Status: 431, Msg: "the request's head does not end"}
			}
			return r, err
		}
		if len(c.ahead) > 0 {
			_ = c.SetReadDeadline(c.begun.Add(headTime))
		}
		if err := c.more(); err != nil {
			return sniff.Request{}, err
		}
	}
}

// say writes last words, gives the program a moment to read them, and closes. Without
// that moment the reset that follows unread bytes could overtake the words.
func (c *client) say(words []byte, linger time.Duration) {
	_ = c.SetDeadline(time.Now().Add(linger))
	if _, err := c.Write(words); err != nil {
		c.Reset()
		return
	}
	c.part(linger)
}

// part ends a connection to which everything was written. What the program still sends is
// of no use to anybody.
func (c *client) part(linger time.Duration) {
	c.forget()
	_ = c.SetDeadline(time.Now().Add(linger))
	if c.CloseWrite() == nil {
		for b := make([]byte, smallBuffer); ; {
			if _, err := c.Read(b); err != nil {
				break
			}
		}
	}
	_ = c.Close()
}

// watch reads ahead while the user is asked, to notice when the program hangs up. One that has
// ended its side counts too: it looks the same as one that was killed.
func (c *client) watch() (gone <-chan struct{}, stop func()) {
	ended, hungUp := make(chan struct{}), make(chan struct{})
	_ = c.SetReadDeadline(time.Time{})
	go func() {
		defer close(ended)
		for len(c.ahead) < maxAhead/2 {
			if err := c.more(); err != nil {
				if !isTimeout(err) && !errors.Is(err, errFull) {
					close(hungUp)
				}
				return
			}
		}
	}()
	return hungUp, func() {
		_ = c.SetReadDeadline(time.Unix(1, 0))
		<-ended
		_ = c.SetReadDeadline(time.Time{})
	}
}

// A reserve is memory that all connections share for long heads: what programs inside can make
// the gateway keep is the host's memory, outside of any limit of the sandbox. A connection that
// gets nothing is refused, and those with small heads go on.
type reserve struct{ left atomic.Int64 }

func newReserve(size int64) *reserve {
	r := &reserve{}
	r.left.Store(size)
	return r
}

// take says no if so much is not left. A negative number gives back.
func (r *reserve) take(n int) bool {
	if r.left.Add(-int64(n)) < 0 && n > 0 {
		r.left.Add(int64(n))
		return false
	}
	return true
}

// errFull says that the reserve has nothing left.
var errFull = errors.New("too many bytes of other connections wait for a decision")

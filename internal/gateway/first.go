package gateway

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/cofferhq/coffer/internal/gateway/sniff"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/policy"
)

// inside is the program's end of a flow, with what was read of it and not passed on yet.
type inside struct {
	link.Conn
	ahead []byte
	claim claim     // for ahead
	most  int       // how long ahead may get; zero: maxAhead
	begun time.Time // when the first byte of ahead came
	// closed says whether the program has closed it; nil if that cannot be seen.
	closed func() bool
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
func (c *inside) more() error {
	if len(c.ahead) == cap(c.ahead) {
		size := max(2*cap(c.ahead), firstRead)
		switch {
		case size > maxAhead || c.most > 0 && size > c.most:
			return errTooLong
		case !c.claim.buffer(size):
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
func (c *inside) drop(n int) {
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
func (c *inside) forget() {
	c.ahead = nil
	c.claim.set(0)
}

// first waits for enough bytes to tell what the program speaks. wait bounds the time
// to the first byte if it is not zero, and headTime the time from there. If patience is
// not zero and a pause is longer, it is sniff.NeedMore without an error.
func (c *inside) first(wait, headTime, patience time.Duration) (sniff.Kind, error) {
	limited := wait > 0 && len(c.ahead) == 0
	if limited {
		_ = c.SetReadDeadline(time.Now().Add(wait))
	}
	unlimited := func() {
		if limited {
			_ = c.SetReadDeadline(time.Time{})
		}
	}
	for range maxReads {
		began := len(c.ahead) > 0
		if began {
			if kind := sniff.Classify(c.ahead); kind != sniff.NeedMore {
				unlimited()
				return kind, nil
			}
			until := c.begun.Add(headTime)
			if pause := time.Now().Add(patience); patience > 0 && pause.Before(until) {
				until = pause
			}
			_ = c.SetReadDeadline(until)
			limited = true
		}
		err := c.more()
		if err != nil {
			unlimited()
			if errors.Is(err, io.EOF) {
				return sniff.Unknown, nil // whatever it was to be, it is over
			}
			if began && patience > 0 && isTimeout(err) {
				err = nil
			}
			return sniff.NeedMore, err
		}
	}
	return sniff.NeedMore, errTooLong
}

// speakSlowly passes on a beginning that could still become anything, because the
// program waits for an answer to it. If it becomes TLS or HTTP after all, the
// server has not seen a whole line of it, and never will.
func (f *flow) speakSlowly() *refusal {
	if r := f.permit(f.ask(policy.TCP)); r != nil {
		return r
	}
	if r := f.ensureOpen(); r != nil {
		return r
	}
	f.mode.CompareAndSwap(undecided, relaying)
	seen := bytes.Clone(f.client.ahead)
	kept := claim{reserve: f.g.ahead}
	defer kept.set(0)
	for range maxReads {
		if !kept.buffer(cap(seen)) {
			return malformed(errFull)
		}
		if err := f.send(len(f.client.ahead)); err != nil {
			f.finish(err)
			return nil
		}
		switch err := f.client.more(); {
		case errors.Is(err, io.EOF):
			f.finish(nil)
			return nil
		case err != nil:
			f.finish(&sideError{false, err})
			return nil
		}
		seen = append(seen, f.client.ahead...)
		switch sniff.Classify(seen) {
		case sniff.NeedMore:
		case sniff.Unknown, sniff.SSH:
			return f.relay(nil)
		default:
			return &refusal{
				what: "bad request", decision: policy.Decision{Rule: "built-in", Reason: "it became TLS or HTTP after a pause"},
			}
		}
	}
	return &refusal{closed: "too many pieces of one line", hangUp: true}
}

// hello reads a whole ClientHello, without taking it from what was read ahead.
func (c *inside) hello(headTime time.Duration) (sniff.Hello, error) {
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
func (c *inside) request(headTime time.Duration) (sniff.Request, error) {
	defer c.SetReadDeadline(time.Time{})
	if !c.claim.buffer(cap(c.ahead)) { // it may have come with the body before it
		c.forget()
		return sniff.Request{}, errFull
	}
	for seen := 0; ; {
		if seen = headEnd(c.ahead, seen); seen < 0 || len(c.ahead) >= sniff.MaxHTTP {
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

// headEnd looks for an empty line in b, of which the first seen bytes are known to have
// none. It returns -1 if there is one, and otherwise where to go on. Line ends that are
// not HTTP's count too: it is for the parser to refuse them.
func headEnd(b []byte, seen int) int {
	for from := max(seen-3, 0); ; {
		n := bytes.IndexByte(b[from:], '\n')
		if n < 0 {
			return len(b)
		}
		from += n + 1
		rest := b[from:]
		if len(rest) > 0 && rest[0] == '\n' || len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n' {
			return -1
		}
	}
}

// speakTLS checks the ClientHello, decides and relays.
func (f *flow) speakTLS() *refusal {
	hello, err := f.client.hello(f.g.limits.head)
	if err != nil {
		return malformed(err)
	}
	foreign, r := f.checkName(hello)
	if r != nil {
		return r
	}
	if r := f.permitNamed(f.ask(policy.TLS), foreign); r != nil {
		return r
	}
	return f.relay(&hello)
}

// checkName says what is wrong with the server name of a ClientHello, nil for nothing.
// A name for a bare address is still to be decided.
func (f *flow) checkName(hello sniff.Hello) (foreign policy.Query, r *refusal) {
	wrong := func(why string) (policy.Query, *refusal) {
		r := denied(policy.Decision{Rule: "built-in", Reason: why})
		r.alert = sniff.AlertUnrecognizedName
		return policy.Query{}, r
	}
	if hello.ECH {
		return wrong("the ClientHello has an encrypted part (ECH), which may name another server; " +
			"turn ECH off in the program, for Chromium with --disable-features=EncryptedClientHello")
	}
	if f.host == "" {
		return policy.Query{Host: hello.SNI, Port: f.port, Protocol: policy.TLS}, nil
	}
	switch name, err := policy.Canonical(hello.SNI); {
	case hello.SNI == "":
		return wrong("the ClientHello names no server, and the connection is for " + f.host)
	case err != nil || name != f.host:
		return wrong("the ClientHello names another server than " + f.host)
	}
	return policy.Query{}, nil
}

// checkForeign decides about a name that a program gives for a bare address, if it gives one.
func checkForeign(set *policy.Set, q policy.Query, now time.Time) *refusal {
	if q.Host == "" {
		return nil
	}
	q.Now = now
	d := set.Decide(q)
	if between(q) {
		d = set.Connect(q).HTTP
	}
	if d.Verdict == policy.Allow {
		return nil
	}
	d.Verdict = policy.Deny
	d.Reason = "the connection is for an address and names a server that is not allowed by itself: " + d.Reason
	r := denied(d)
	r.host, r.status, r.alert = q.Host, 421, sniff.AlertUnrecognizedName
	return r
}

// malformed makes a refusal of what a parser or a read says.
func malformed(err error) *refusal {
	var bad *sniff.Error
	switch {
	case errors.As(err, &bad):
		return &refusal{
			what: "bad request", status: bad.Status, alert: bad.Alert,
			decision: policy.Decision{Rule: "built-in", Reason: bad.Msg},
		}
	case errors.Is(err, io.EOF):
		return &refusal{closed: "the program ended in the middle of a head", hangUp: true}
	case isTimeout(err):
		return &refusal{
			what: "bad request", status: 408, alert: sniff.AlertDecodeError,
			decision: policy.Decision{Rule: "built-in", Reason: "the head did not come in time"},
		}
	case errors.Is(err, errTooLong):
		return &refusal{
			what: "bad request", status: 431, alert: sniff.AlertDecodeError,
			decision: policy.Decision{Rule: "built-in", Reason: "the head is too long"},
		}
	case errors.Is(err, errFull):
		return &refusal{
			what: "limit", status: 503, alert: alertInternal,
			decision: policy.Decision{Rule: "built-in", Reason: errFull.Error()},
		}
	}
	return &refusal{closed: "reset by the program", hangUp: true}
}

package gateway

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cofferhq/coffer/internal/gateway/sniff"
	"github.com/cofferhq/coffer/internal/policy"
)

// Plain HTTP is passed on byte for byte, but one request at a time: each head is parsed
// and decided before it leaves, and the next one waits for the response to this one.
// So a refusal comes in its place, and a response that switches to another protocol is
// known as such before a byte of it is passed on.

// An exchange is one request and its response. speakHTTP makes it, responses ends it.
type exchange struct {
	method    string
	upgrade   bool        // the request offers another protocol
	expects   bool        // the request waits for 100 Continue before its body
	sent      atomic.Bool // the whole request was passed on
	begun     atomic.Bool // something of the response was passed on
	cut       atomic.Bool // the response came instead of 100 Continue: no body
	continued bool
	heard     chan struct{} // closed when the server has said anything

	done     chan struct{} // closed when the response was passed on
	switched bool          // to another protocol; valid after done
	last     bool          // nothing may follow on this connection; valid after done
}

// speakHTTP carries requests until one of the sides ends.
func (f *flow) speakHTTP() *refusal {
	if !f.mode.CompareAndSwap(undecided, speaking) {
		return &refusal{closed: "HTTP on a connection on which the server has spoken first", hangUp: true}
	}
	for x := (*exchange)(nil); ; {
		if x != nil && f.isDown() {
			f.bye("closed by the server")
			return nil
		}
		req, err := f.client.request(f.g.limits.head)
		if err != nil {
			return f.endRequests(x, err)
		}
		if x != nil && !f.await(x) {
			f.bye("closed by the server")
			return nil
		}
		if r := f.permitRequest(req); r != nil {
			r.method, r.path = req.Method, req.Path
			return r
		}
		if r := f.ensureOpen(); r != nil {
			return r
		}
		x = f.newExchange(req)
		if r, over := f.pass(req, x); over {
			return r
		}
		// After an offer, what follows is a request or something else: the response tells.
		if x.upgrade {
			f.await(x)
			if ended(x) && x.switched {
				f.finish(f.sendAll())
				return nil
			}
		}
	}
}

// endRequests ends a connection on which no further request could be read.
func (f *flow) endRequests(x *exchange, err error) *refusal {
	var bad *sniff.Error
	atEnd := errors.Is(err, io.EOF)
	if !atEnd && !isTimeout(err) && !errors.As(err, &bad) && !errors.Is(err, errTooLong) && !errors.Is(err, errFull) {
		f.end(reason("program", err))
		return nil
	}
	if x != nil {
		if atEnd {
			_ = closeWrite(f.up) // it may still wait for the response
		}
		if !f.await(x) {
			f.bye("closed by the server")
			return nil
		}
	}
	if atEnd && len(f.client.ahead) == 0 {
		f.bye("closed by the program")
		return nil
	}
	return malformed(err)
}

// bye closes both sides after all was said.
func (f *flow) bye(why string) {
	f.note(why)
	f.stop()
	f.client.part(f.g.limits.linger)
}

// await waits for a response to be through. It says no when no other can follow.
func (f *flow) await(x *exchange) bool {
	select {
	case <-x.done:
		return !x.last && !f.isDown()
	case <-f.down:
		return false
	}
}

// isDown says that nothing more comes from the server.
func (f *flow) isDown() bool {
	select {
	case <-f.down:
		return true
	default:
		return false
	}
}

func ended(x *exchange) bool {
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

// maxPath bounds a path, which is kept while its request is answered: the rules may change.
const maxPath = 8 << 10

// permitRequest decides about one request.
func (f *flow) permitRequest(req sniff.Request) *refusal {
	q := f.ask(policy.HTTP)
	q.Method, q.Path = req.Method, req.Path
	if req.Method == "CONNECT" {
		return denied(policy.Decision{Rule: "built-in", Reason: "CONNECT is for proxies, and there is none"})
	}
	if len(req.Path) > maxPath {
		return malformed(&sniff.Error{Status: 414, Msg: "the path is too long"})
	}
	foreign, r := f.checkHost(req, q)
	if r != nil {
		return r
	}
	return f.permitNamed(q, foreign)
}

// checkHost says what is wrong with the host that a request names, nil for nothing.
// A name for a bare address is still to be decided.
func (f *flow) checkHost(req sniff.Request, q policy.Query) (foreign policy.Query, r *refusal) {
	named, err := policy.NewQuery(req.Host, req.Port)
	switch {
	case err != nil:
	case named.Port != f.port:
	case f.host != "" && named.Host == f.host:
		return foreign, nil
	case f.host == "" && named.Host == "" && named.Addr == f.target:
		return foreign, nil
	case f.host == "" && named.Host != "":
		q.Host = named.Host
		return q, nil
	}
	r = denied(policy.Decision{Rule: "built-in", Reason: "the request names another host or port than its connection is for"})
	r.status = 421
	return foreign, r
}

func (f *flow) newExchange(req sniff.Request) *exchange {
	raw := f.client.ahead[:req.Len]
	x := &exchange{
		method: req.Method, upgrade: req.Upgrade != "" && mayUpgrade(req.Upgrade),
		expects: hasField(raw, "expect"), done: make(chan struct{}), heard: make(chan struct{}),
	}
	x.last = req.Close
	f.turn <- x
	return x
}

// mayUpgrade says whether an offer of other protocols may be passed on. HTTP/2 and TLS
// may not: what they carry to which host could no longer be seen.
func mayUpgrade(offer string) bool {
	for protocol := range strings.SplitSeq(offer, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(protocol), "/")
		switch strings.ToLower(name) {
		case "h2c", "h2", "http", "tls":
			return false
		}
	}
	return true
}

// pass sends a request. over says that the connection ends, with or without a refusal.
func (f *flow) pass(req sniff.Request, x *exchange) (r *refusal, over bool) {
	err := f.sendHead(req)
	if err == nil {
		err = f.sendBody(req, x)
	}
	if f.requests++; f.requests == 1 {
		f.mu.Lock()
		f.method, f.path = clip(req.Method), clip(req.Path)
		f.mu.Unlock()
	}
	var side *sideError
	var bad *sniff.Error
	switch {
	case err == nil:
		x.sent.Store(true)
		return nil, false
	case x.cut.Load():
		f.await(x)
		f.bye("the server did not want the body")
	case errors.Is(err, errBudget):
		f.cutShort(x)
	case errors.As(err, &bad):
		f.stop()
		if x.begun.Load() {
			return &refusal{closed: bad.Msg, hangUp: true}, true
		}
		return malformed(err), true
	case errors.Is(err, io.EOF): // in the middle of the body
		_ = closeWrite(f.up)
		f.await(x)
		f.bye("the program ended in the middle of a request")
	case errors.As(err, &side) && !side.write:
		if isTimeout(err) { // the server has ended, see downloaded
			f.bye("closed by the server")
			break
		}
		f.end(reason("program", side.error))
	default:
		// The server listens no more. It may have said why.
		f.await(x)
		f.bye(reason("server", err))
	}
	return nil, true
}

// cutShort ends a request that the budget has not enough for. The server has not seen the end of
// it; if it has not answered yet, the program is told why.
func (f *flow) cutShort(x *exchange) {
	r := f.overrun("upload")
	f.stop()
	if r == nil || x.begun.Load() {
		f.end("the upload limit is used up")
		return
	}
	f.note("the upload limit is used up")
	f.client.say(sniff.Answer(403, f.document(r)), f.g.limits.linger)
}

// sendHead passes on the head of a request, without an offer that may not be passed on.
func (f *flow) sendHead(req sniff.Request) error {
	raw := f.client.ahead[:req.Len]
	if req.Upgrade != "" && !mayUpgrade(req.Upgrade) {
		raw = without(raw, "upgrade", "http2-settings")
	}
	err := f.upward().write(raw)
	f.client.drop(req.Len)
	return err
}

// sendBody passes on the body of a request.
func (f *flow) sendBody(req sniff.Request, x *exchange) error {
	if req.ContentLength == 0 && !req.Chunked {
		return nil
	}
	if !req.Chunked && !x.expects {
		n := min(int64(len(f.client.ahead)), req.ContentLength)
		if err := f.send(int(n)); err != nil {
			return err
		}
		return f.upward().run(req.ContentLength - n)
	}
	if x.expects && !f.wanted(x) {
		return errors.New("cut")
	}
	body, up := sniff.NewBody(req), f.upward()
	b := f.g.large.borrow()
	defer f.g.large.giveBack(b)
	piece := f.client.ahead
	for f.client.ahead = nil; ; {
		if len(piece) > 0 {
			n, done, err := body.Next(piece)
			if err != nil {
				return err
			}
			if x.cut.Load() {
				return errors.New("cut")
			}
			if err := up.write(piece[:n]); err != nil {
				return err
			}
			if done {
				f.client.ahead, f.client.begun = bytes.Clone(piece[n:]), time.Now()
				return nil
			}
		}
		f.client.claim.set(0)
		n, err := f.client.Conn.Read(*b)
		if n == 0 && err != nil {
			if err == io.EOF {
				return err
			}
			return &sideError{false, err}
		}
		piece = (*b)[:n]
	}
}

// wanted waits for the server to say that it wants the body of a request. Some never do,
// and take it all the same.
func (f *flow) wanted(x *exchange) bool {
	t := time.NewTimer(f.g.limits.expect)
	defer t.Stop()
	select {
	case <-x.heard:
	case <-t.C:
	case <-f.down:
	}
	return !x.cut.Load()
}

// hasField says whether a head, which was parsed, has a field.
func hasField(raw []byte, name string) bool {
	return len(without(raw, name)) != len(raw)
}

// without returns a head, which was parsed, without some fields.
func without(raw []byte, names ...string) []byte {
	out := make([]byte, 0, len(raw))
	for line := range bytes.SplitAfterSeq(raw, []byte("\n")) {
		name, _, isField := bytes.Cut(line, []byte(":"))
		drop := false
		for _, n := range names {
			drop = drop || isField && len(out) > 0 && strings.EqualFold(string(name), n)
		}
		if !drop {
			out = append(out, line...)
		}
	}
	return out
}

package gateway

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/gateway/sniff"
	"github.com/cofferhq/coffer/internal/policy"
)

// Requests of plain HTTP are parsed and decided one by one before they leave, byte for byte.
// Responses are passed on unread, but for the one to an offer of another protocol. So where a
// request ends has to be beyond doubt for every server: one with a body tells the server to
// close the connection, and nothing follows it.

// An httpFlow is a flow whose first bytes are a request of plain HTTP.
type httpFlow struct{ *flow }

// speakHTTP carries requests until one of the sides ends.
func (f httpFlow) speakHTTP() *refusal {
	f.offer.Store(&offer{})
	for {
		if f.requests > 0 && f.isDown() {
			f.bye("closed by the server")
			return nil
		}
		req, err := f.client.request(f.g.limits.head)
		if f.requests > 0 && f.isDown() {
			f.bye("closed by the server")
			return nil
		}
		if err == nil {
			err = checkBody(req, f.g.policy.Load().Requests(f.ask(policy.HTTP)))
		}
		if err != nil {
			return f.endRequests(err)
		}
		if r := f.permitRequest(req); r != nil {
			r.method, r.path = req.Method, req.Path
			f.drain()
			return r
		}
		if r := f.ready(); r != nil {
			return r
		}
		last := hasBody(req) || req.Close
		offered := f.prepare(req, last)
		if err = f.pass(req, last); err != nil {
			return f.cut(err)
		}
		switch {
		case offered != nil && f.switched(offered):
			f.offer.Store(nil)
			return f.relay()
		case last:
			f.finishRequests()
			return nil
		}
	}
}

func hasBody(req sniff.Request) bool { return req.ContentLength != 0 || req.Chunked }

// checkBody refuses bodies that some servers do not read, and take for the next request, where
// rules look at requests.
func checkBody(req sniff.Request, rules bool) error {
	switch req.Method {
	case "GET", "HEAD", "DELETE", "OPTIONS":
		if rules && hasBody(req) {
			return &sniff.Error{Status: 400, Msg: "where rules look at requests, " + req.Method + " has no body"}
		}
	}
	return nil
}

// maxPath bounds a path, which is kept while its request is answered: the rules may change.
const maxPath = 8 << 10

// permitRequest decides about one request.
func (f httpFlow) permitRequest(req sniff.Request) *refusal {
	q := f.ask(policy.HTTP)
	q.Method, q.Path = req.Method, req.Path
	if req.Method == "CONNECT" {
		return denied(policy.Decision{Rule: builtin, Reason: "CONNECT is for proxies, and there is none"})
	}
	if len(req.Path) > maxPath {
		return malformed(&sniff.Error{Status: 414, Msg: "the path is too long"})
	}
	foreign, r := f.checkHost(req, q)
	if r != nil {
		return r
	}
	return f.permit(q, foreign, f.client.watch)
}

// checkHost says what is wrong with the host that a request names, nil for nothing.
// A name for a bare address is still to be decided.
func (f httpFlow) checkHost(req sniff.Request, q policy.Query) (foreign policy.Query, r *refusal) {
	named, err := policy.NewQuery(req.Host, req.Port)
	switch {
	case err != nil:
	case named.Port != f.port:
	case f.host != "" && named.Host == f.host:
		return foreign, nil
	case f.host == "" && named.Host == "" && named.Addr == f.addr:
		return foreign, nil
	case f.host == "" && named.Host != "":
		q.Host = named.Host
		return q, nil
	}
	r = denied(policy.Decision{Rule: builtin, Reason: "the request names another host or port than its connection is for"})
	r.status = 421
	return foreign, r
}

// pass sends a request.
func (f httpFlow) pass(req sniff.Request, last bool) error {
	if f.requests++; f.requests == 1 {
		f.mu.Lock()
		f.method, f.path = clip(req.Method), clip(req.Path)
		f.mu.Unlock()
	}
	raw := f.client.ahead[:req.Len]
	if req.Upgrade != "" && f.offer.Load().answer == nil {
		raw = without(raw, "upgrade", "http2-settings")
	}
	if last && !req.Close {
		raw = append(bytes.TrimSuffix(without(raw, "connection", "keep-alive"), []byte("\r\n")), "Connection: close\r\n\r\n"...)
	}
	up := f.upward()
	err := up.write(raw)
	f.client.drop(req.Len)
	if err != nil || !hasBody(req) {
		return err
	}
	if !req.Chunked {
		n := min(int64(len(f.client.ahead)), req.ContentLength)
		if err := f.send(int(n)); err != nil {
			return err
		}
		return up.run(req.ContentLength - n)
	}
	body := sniff.NewBody(req)
	b := make([]byte, 32<<10)
	for n := copy(b, f.client.ahead); ; {
		take, done, err := body.Next(b[:n])
		if err == nil {
			err = up.write(b[:take])
		}
		if err != nil || done {
			return err
		}
		f.client.forget()
		if n, err = f.client.Conn.Read(b); err == io.EOF {
			return err
		} else if err != nil {
			return &sideError{false, err}
		}
	}
}

// cut ends a connection on which a request could not be passed on to its end.
func (f httpFlow) cut(err error) *refusal {
	var side *sideError
	var bad *sniff.Error
	switch {
	case errors.Is(err, errBudget):
		r := f.overrun("upload")
		f.stop()
		if r == nil || f.received.Load() > 0 {
			f.end("the upload limit is used up")
			return nil
		}
		f.note("the upload limit is used up")
		f.client.say(sniff.Answer(403, f.document(r)), f.g.limits.linger)
	case errors.As(err, &bad):
		f.stop()
		if f.received.Load() > 0 {
			return &refusal{closed: bad.Msg, hangUp: true}
		}
		return malformed(err)
	case errors.Is(err, io.EOF): // in the middle of the body
		_ = closeWrite(f.up)
		<-f.down
		f.bye("the program ended in the middle of a request")
	case errors.As(err, &side) && !side.write && !f.isDown():
		f.end(reason("program", side.error))
	default:
		// The server listens no more. It may have said why.
		<-f.down
		f.bye("closed by the server")
	}
	return nil
}

// endRequests ends a connection on which no further request could be read.
func (f httpFlow) endRequests(err error) *refusal {
	switch {
	case errors.Is(err, io.EOF) && len(f.client.ahead) == 0 && f.requests > 0:
		f.finish(nil) // it may still wait for a response
		return nil
	case f.requests > 0:
		f.drain()
	}
	return malformed(err)
}

// drain waits for the responses that are still to come, so that a refusal comes in its place.
func (f httpFlow) drain() {
	if f.requests == 0 {
		return
	}
	_ = closeWrite(f.up)
	for was := int64(-1); was != f.received.Load(); {
		was = f.received.Load()
		select {
		case <-f.down:
			return
		case <-f.ctx.Done():
			return
		case <-time.After(f.g.limits.linger):
		}
	}
}

// finishRequests ends a connection after its last request. What the program still sends goes
// nowhere; that it hangs up is noticed.
func (f httpFlow) finishRequests() {
	f.client.forget()
	if !f.isDown() {
		if _, err := io.Copy(io.Discard, f.client.Conn); err != nil && !f.isDown() {
			f.end(reason("program", err))
			return
		}
	}
	_ = closeWrite(f.up)
	f.halved()
	<-f.down
	f.bye("closed by the server")
}

// An offer is to go on in another protocol. Without an answer channel there is none.
type offer struct {
	answer chan bool // says whether the server has switched
}

// prepare makes ready for what a server says to the offer of a request. One that may not be
// passed on is none, nor is one that is not the first request: other responses may come before.
func (f httpFlow) prepare(req sniff.Request, last bool) *offer {
	if req.Upgrade == "" || last || f.requests > 0 || f.received.Load() > 0 || !sniff.MayUpgrade(req.Upgrade) {
		f.offer.Store(&offer{})
		return nil
	}
	o := &offer{make(chan bool, 1)}
	f.offer.Store(o)
	return o
}

// answered looks at the first bytes of a response to an offer.
func (f *flow) answered(b []byte) {
	if o := f.offer.Load(); o != nil && o.answer != nil {
		select {
		case o.answer <- bytes.HasPrefix(b, []byte("HTTP/1.1 101 ")):
		default:
		}
	}
}

// switched waits for the server to take an offer or not.
func (f httpFlow) switched(o *offer) bool {
	select {
	case yes := <-o.answer:
		return yes
	case <-f.down:
		return false
	}
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

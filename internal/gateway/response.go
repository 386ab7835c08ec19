package gateway

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/gateway/sniff"
)

// maxResponseHead bounds the head of a response that is read as such.
const maxResponseHead = 64 << 10

var (
	errUnasked  = errors.New("it answers what nobody had asked")
	errSwitched = errors.New("it switched to a protocol that nobody had offered")
)

// outside is what was read from a server and not passed on yet.
type outside struct {
	src   net.Conn
	ahead []byte
	claim claim
}

// more reads once.
func (o *outside) more() error {
	if len(o.ahead) == cap(o.ahead) {
		size := max(2*cap(o.ahead), firstRead)
		if !o.claim.buffer(size) {
			return errFull
		}
		o.ahead = append(make([]byte, 0, size), o.ahead...)
	}
	n, err := o.src.Read(o.ahead[len(o.ahead):cap(o.ahead)])
	o.ahead = o.ahead[:len(o.ahead)+n]
	switch {
	case n > 0:
		return nil
	case err == nil || err == io.EOF:
		return io.EOF
	}
	return &sideError{false, err}
}

// responses passes on responses, each in its turn. What cannot be read as a response is passed on
// as it is, to the end: no request can follow it then.
func (f *flow) responses(ahead []byte) error {
	in := &outside{src: f.up, ahead: ahead, claim: claim{reserve: f.g.ahead}}
	defer in.claim.set(0)
	var x *exchange
	for {
		size, err := in.head(f.g.limits.head)
		if err != nil {
			return err
		}
		if len(in.ahead) == 0 {
			return nil // the end, between two responses
		}
		if x == nil {
			select {
			case x = <-f.turn:
			default: // nobody has asked
				if parseResponse(in.ahead[:size], "GET").status != 408 {
					return errUnasked
				}
				return f.rest(in) // the server is tired of waiting
			}
		}
		r := parseResponse(in.ahead[:size], x.method)
		if r.informs() {
			if r.status == 100 && !x.continued {
				x.continued = true
				close(x.heard)
			}
			if err := f.deliver(in, size); err != nil {
				return err
			}
			continue
		}
		over, err := f.respond(in, x, r, size)
		if err != nil || over {
			return err
		}
		x = nil
	}
}

// respond passes on a final response. over says that no other can follow.
func (f *flow) respond(in *outside, x *exchange, r response, size int) (over bool, err error) {
	unasked := x.expects && !x.continued
	if unasked && !x.sent.Load() {
		x.cut.Store(true)
	}
	if !x.continued {
		close(x.heard)
	}
	if r.status == 101 {
		return true, f.respondSwitch(in, x, size)
	}
	x.begun.Store(true)
	if size == 0 || r.toEnd {
		return true, f.rest(in)
	}
	if err := f.deliver(in, size); err != nil {
		return true, err
	}
	if r.chunked {
		if toEnd, err := f.deliverChunks(in); toEnd || err != nil {
			return true, err
		}
	} else if err := f.deliverLength(in, r.length); err != nil {
		if err == io.EOF {
			err = nil // cut off: the program sees it by the length
		}
		return true, err
	}
	x.last = x.last || r.close || unasked
	f.idle()
	over = x.last // read before others may
	close(x.done)
	return over, nil
}

// respondSwitch passes on the answer that switches to another protocol, and that protocol.
func (f *flow) respondSwitch(in *outside, x *exchange, size int) error {
	if !x.upgrade {
		return errSwitched
	}
	x.begun.Store(true)
	if err := f.deliver(in, size); err != nil {
		return err
	}
	f.mode.Store(relaying)
	x.switched = true
	close(x.done)
	return f.rest(in)
}

// deliver passes on n bytes of what was read.
func (f *flow) deliver(in *outside, n int) error {
	err := f.downward().write(in.ahead[:n])
	if n == len(in.ahead) {
		in.forget() // an idle connection keeps no buffer
		return err
	}
	rest := copy(in.ahead, in.ahead[n:])
	in.ahead = in.ahead[:rest]
	return err
}

// rest passes on all that comes, to the end.
func (f *flow) rest(in *outside) error {
	if err := f.deliver(in, len(in.ahead)); err != nil {
		return err
	}
	return f.downward().run(-1)
}

// deliverLength passes on a body of known length.
func (f *flow) deliverLength(in *outside, length int64) error {
	n := min(int64(len(in.ahead)), length)
	if err := f.deliver(in, int(n)); err != nil {
		return err
	}
	return f.downward().run(length - n)
}

// deliverChunks passes on a body of chunks. toEnd says that the end could not be found, so
// that everything was passed on.
func (f *flow) deliverChunks(in *outside) (toEnd bool, err error) {
	body, down := sniff.NewBody(sniff.Request{Chunked: true, ContentLength: -1}), f.downward()
	b := f.g.large.borrow()
	defer f.g.large.giveBack(b)
	piece := in.ahead
	for in.ahead = nil; ; {
		n, done, bad := body.Next(piece)
		if bad != nil {
			n = len(piece)
		}
		if err := down.write(piece[:n]); err != nil {
			return true, err
		}
		if bad != nil {
			return true, down.run(-1)
		}
		if done {
			in.ahead = bytes.Clone(piece[n:])
			return false, nil
		}
		in.claim.set(0)
		n, err := in.src.Read(*b)
		if n == 0 && err != nil {
			if err == io.EOF {
				return true, nil
			}
			return true, &sideError{false, err}
		}
		piece = (*b)[:n]
	}
}

// forget drops all that was read.
func (o *outside) forget() {
	o.ahead = nil
	o.claim.set(0)
}

// head reads until there is a whole head and returns its size, 0 if what comes has none,
// or none that is small and quick enough to be waited for.
func (o *outside) head(headTime time.Duration) (int, error) {
	defer o.src.SetReadDeadline(time.Time{})
	if !o.claim.buffer(cap(o.ahead)) { // it came with what was before it
		return 0, nil
	}
	begun := time.Time{}
	for seen := 0; ; {
		if n := headSize(o.ahead, seen); n > 0 {
			return n, nil
		}
		if seen = len(o.ahead); seen >= maxResponseHead {
			return 0, nil
		}
		if seen > 0 && begun.IsZero() {
			begun = time.Now()
			_ = o.src.SetReadDeadline(begun.Add(headTime))
		}
		switch err := o.more(); {
		case err == nil:
		case err == io.EOF, err == errFull, isTimeout(err):
			return 0, nil
		default:
			return 0, err
		}
	}
}

// headSize returns the size of a head, 0 if there is no end of one. The first seen
// bytes are known to have none.
func headSize(b []byte, seen int) int {
	from := max(seen-3, 0)
	if n := bytes.Index(b[from:], []byte("\r\n\r\n")); n >= 0 {
		return from + n + 4
	}
	return 0
}

// A response is what its head says about where it ends.
type response struct {
	status  int
	length  int64
	chunked bool
	toEnd   bool // it ends with the connection, or cannot be read with certainty
	close   bool
}

// informs says that another response follows to the same request.
func (r response) informs() bool { return r.status >= 100 && r.status < 200 && r.status != 101 }

// parseResponse reads the head of a response to a request with some method.
func parseResponse(b []byte, method string) (r response) {
	odd := response{toEnd: true, close: true}
	lines := strings.Split(string(b), "\r\n")
	version, rest, _ := strings.Cut(lines[0], " ")
	code, _, _ := strings.Cut(rest, " ")
	status, err := strconv.ParseUint(code, 10, 16)
	if err != nil || len(code) != 3 || status < 100 || version != "HTTP/1.0" && version != "HTTP/1.1" {
		return odd
	}
	r = response{status: int(status), length: -1, close: version == "HTTP/1.0"}
	for _, line := range lines[1:] {
		if line == "" {
			break
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.ContainsAny(name, " \t") || strings.Contains(line, "\n") {
			return odd
		}
		value = strings.ToLower(strings.Trim(value, " \t"))
		switch strings.ToLower(name) {
		case "content-length":
			n, err := strconv.ParseUint(value, 10, 63)
			if err != nil || r.length >= 0 && r.length != int64(n) {
				return odd
			}
			r.length = int64(n)
		case "transfer-encoding":
			if value != "chunked" || r.chunked {
				return odd
			}
			r.chunked = true
		case "connection":
			for option := range strings.SplitSeq(value, ",") {
				r.close = r.close || strings.TrimSpace(option) == "close"
			}
		}
	}
	return r.framed(method)
}

// framed says where the body ends.
func (r response) framed(method string) response {
	switch {
	case r.status < 200 || r.status == 204 || r.status == 304 || method == "HEAD":
		r.length, r.chunked = 0, false
	case r.chunked && r.length >= 0:
		r.toEnd, r.close = true, true
	case !r.chunked && r.length < 0:
		r.toEnd, r.close = true, true
	}
	return r
}

package intercept

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"net/http"
	"sync/atomic"

	"github.com/cofferhq/coffer/internal/gateway/sniff"
)

// A strictConn is an HTTP/1 connection on which every reader finds the same requests. net/http is
// generous: it takes a length beside chunks, the same length twice, and odd ends of lines. So each
// head, and each chunk, meets the parser for plain HTTP before net/http sees it.
//
// In place of a head that is refused there is a request of our own, for the path in place, which
// no program knows.
type strictConn struct {
	*tls.Conn
	raw   atomic.Bool // another protocol is spoken now
	place string
	bad   *sniff.Error // what was wrong with the head; set before the request for place is read

	buf   []byte
	ready int         // how many bytes of buf were looked at and are fit to be passed on
	body  *sniff.Body // that comes next; nil for a head
}

func newStrict(c *tls.Conn) *strictConn { return &strictConn{Conn: c, place: "/" + rand.Text()} }

func (s *strictConn) Read(p []byte) (int, error) {
	for s.ready == 0 {
		switch {
		case s.bad != nil:
			return 0, s.bad
		case len(s.buf) == 0 && s.raw.Load():
			return s.Conn.Read(p)
		case len(s.buf) == 0 && s.body != nil:
			return s.readBody(p)
		case !s.headIsWhole():
			if err := s.more(); err != nil {
				return 0, err
			}
		default:
			if err := s.judge(); err != nil {
				return 0, err
			}
		}
	}
	n := copy(p, s.buf[:s.ready])
	if s.buf, s.ready = s.buf[n:], s.ready-n; len(s.buf) == 0 {
		s.buf = nil // an idle connection keeps no buffer
	}
	return n, nil
}

// headIsWhole says whether there is something to judge: any bytes of a body, or a head.
func (s *strictConn) headIsWhole() bool {
	if s.body != nil || s.raw.Load() {
		return len(s.buf) > 0
	}
	return len(s.buf) >= sniff.MaxHTTP || bytes.Contains(s.buf, []byte("\n\r\n")) || bytes.Contains(s.buf, []byte("\n\n"))
}

// more reads once and adds to what was not passed on yet.
func (s *strictConn) more() error {
	if len(s.buf) == cap(s.buf) {
		s.buf = append(make([]byte, 0, max(4<<10, 2*cap(s.buf))), s.buf...)
	}
	n, err := s.Conn.Read(s.buf[len(s.buf):cap(s.buf)])
	s.buf = s.buf[:len(s.buf)+n]
	if n > 0 {
		return nil
	}
	return err
}

// readBody reads what is of a body, and keeps what comes after it.
func (s *strictConn) readBody(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if n == 0 {
		return 0, err
	}
	take, done, bad := s.body.Next(p[:n])
	if bad != nil {
		return 0, bad
	}
	if done {
		s.body, s.buf = nil, append(s.buf, p[take:n]...)
	}
	return take, nil
}

// judge finds out how much of what was read may be passed on.
func (s *strictConn) judge() error {
	switch {
	case s.raw.Load():
		s.ready = len(s.buf)
	case s.body != nil:
		n, done, err := s.body.Next(s.buf)
		if err != nil {
			return err
		}
		if s.ready = n; done {
			s.body = nil
		}
	default:
		r, need, err := sniff.ParseHTTP(s.buf)
		if err == nil && need > 0 {
			err = &sniff.Error{Status: http.StatusRequestHeaderFieldsTooLarge, Msg: "the request's head does not end"}
		}
		if err != nil {
			s.bad, _ = err.(*sniff.Error)
			s.buf = []byte("GET " + s.place + " HTTP/1.1\r\nHost: coffer.internal\r\nConnection: close\r\n\r\n")
			s.ready = len(s.buf)
			return nil
		}
		if s.ready = r.Len; r.Chunked || r.ContentLength > 0 {
			s.body = sniff.NewBody(r)
		}
	}
	return nil
}

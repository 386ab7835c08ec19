package intercept

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// A Bound secret is one that a sandbox has a placeholder for, and that some servers are sent.
type Bound struct {
	Name        string
	Placeholder string
	Hosts       func(host string, port uint16) bool
	// Where the placeholder is replaced: in header fields (canonical names), in parameters of the
	// query, in the body.
	Headers, Queries []string
	Body             bool
	// Value asks for the secret, once for each request to its hosts. A secret that changes its
	// shape needs another placeholder. Programs are not told the error.
	Value func() (string, error)
}

// Secrets is the stage that puts secrets in place of placeholders in requests, and placeholders in
// place of secrets in responses. It is the last one, so that no other stage sees a secret.
//
// A placeholder in the path, or in a header field or parameter that its secret is not for, refuses
// the request, and so does one of a secret that is for other hosts. Bodies are not searched for
// those: what an agent says to its model may well hold its whole environment.
//
// Responses are asked for without compression, or with gzip and zstd only, and programs get them
// decoded. What comes in another encoding is not passed on.
type Secrets struct {
	Bound []Bound
	// Note is told of each secret that is sent, and of each request that is refused for one. It is
	// called from several goroutines at once.
	Note func(name, host string, refused bool)

	mu    sync.Mutex
	known map[string]*swapper // by their pairs
}

func (s *Secrets) Wants(host string, port uint16) bool {
	return slices.ContainsFunc(s.Bound, func(b Bound) bool { return b.Hosts(host, port) })
}

// A use of a secret is what one request may do with it.
type use struct {
	Bound
	swapper *swapper
	here    bool // the host is one of its own
	sent    bool
}

func (s *Secrets) Exchange(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	host := req.URL.Hostname()
	uses, back, err := s.uses(req)
	if err != nil {
		return nil, err
	}
	for _, u := range uses {
		if err := u.substitute(req); err != nil {
			s.Note(u.Name, host, true)
			return nil, err
		}
	}
	for _, u := range uses {
		if u.sent {
			s.Note(u.Name, host, false)
		}
	}
	scrub, err := s.made(newScrubber, back...)
	if err != nil {
		return nil, err
	}
	// Only what can be read can be scrubbed. A range could be half of a secret.
	for _, name := range []string{"Range", "If-Range", "Sec-Websocket-Extensions", "Grpc-Accept-Encoding", "Connect-Accept-Encoding"} {
		req.Header.Del(name)
	}
	encoding := "identity"
	if strings.Contains(strings.Join(req.Header["Accept-Encoding"], ","), "gzip") {
		encoding = "gzip, zstd"
	}
	req.Header.Set("Accept-Encoding", encoding)
	for _, u := range uses {
		if u.here && u.Body && req.Body != nil && req.Body != http.NoBody {
			note := sync.OnceFunc(func() { s.Note(u.Name, host, false) })
			req.Body, req.GetBody = body{&swapReader{swapper: u.swapper, src: req.Body, swapped: note}, req.Body}, nil
		}
	}
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			scrubHeader(http.Header(h), scrub, back)
			return nil
		},
	}))
	resp, err := next.RoundTrip(req)
	if err != nil {
		return resp, err
	}
	return resp, scrubResponse(resp, scrub, back)
}

// uses asks for the secrets that are the host's. back is for its responses.
func (s *Secrets) uses(req *http.Request) (uses []*use, back []pair, err error) {
	port, _ := strconv.ParseUint(req.URL.Port(), 10, 16)
	if port == 0 {
		port = 443
	}
	for _, b := range s.Bound {
		u := &use{Bound: b, here: b.Hosts(req.URL.Hostname(), uint16(port))}
		value := b.Placeholder
		if u.here {
			if value, err = b.Value(); err != nil {
				return nil, nil, &Refusal{Status: http.StatusBadGateway, Rule: b.Name, Reason: "the secret " + b.Name + " cannot be had on the host", Allow: "coffer secret get " + b.Name}
			}
			back = append(back, pair{value, b.Placeholder})
		}
		if u.swapper, err = s.made(newSwapper, pair{b.Placeholder, value}); err != nil {
			return nil, nil, &Refusal{Status: http.StatusBadGateway, Rule: b.Name, Reason: "the secret " + b.Name + " has another shape than its placeholder"}
		}
		uses = append(uses, u)
	}
	return uses, back, nil
}

// made makes a swapper, or finds the one that was made. No pair is for both directions.
func (s *Secrets) made(make func([]pair) (*swapper, error), pairs ...pair) (*swapper, error) {
	var key strings.Builder
	for _, p := range pairs {
		key.WriteString(p.from + "\x00" + p.to + "\x00")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if made := s.known[key.String()]; made != nil {
		return made, nil
	}
	made, err := make(pairs)
	if err != nil {
		return nil, err
	}
	if s.known == nil || len(s.known) > 4*len(s.Bound)+64 { // secrets that were changed
		s.known = map[string]*swapper{}
	}
	s.known[key.String()] = made
	return made, nil
}

// substitute puts the secret into a request, except for its body.
func (u *use) substitute(req *http.Request) error {
	swap := func(text, what string, allowed bool) (string, error) {
		out, found := u.swapper.text(text)
		switch {
		case found && !u.here:
			return "", &Refusal{Rule: u.Name, Reason: "the placeholder of the secret " + u.Name + " is in " + what + ", and the secret is not for this host"}
		case found && !allowed:
			return "", &Refusal{Rule: u.Name, Reason: "the placeholder of the secret " + u.Name + " is in " + what + ", where the secret must not be"}
		}
		u.sent = u.sent || found
		return out, nil
	}
	if _, err := swap(req.URL.EscapedPath(), "the path", false); err != nil {
		return err
	}
	parts := strings.Split(req.URL.RawQuery, "&")
	for i, part := range parts {
		key, _, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(key)
		if _, found := u.swapper.text(key); found {
			name = ""
		}
		if parts[i], err = swap(part, "the query", err == nil && slices.Contains(u.Queries, name)); err != nil {
			return err
		}
	}
	for name, values := range req.Header {
		for i, v := range values {
			var err error
			if values[i], err = swap(v, "the header field "+name, slices.Contains(u.Headers, name)); err != nil {
				return err
			}
		}
	}
	req.URL.RawQuery = strings.Join(parts, "&")
	return nil
}

// scrubResponse has the placeholders put back wherever the secrets may be.
func scrubResponse(resp *http.Response, scrub *swapper, back []pair) error {
	scrubHeader(resp.Header, scrub, back)
	resp.Status, _ = scrub.text(resp.Status)
	h := resp.Header
	if resp.StatusCode == http.StatusSwitchingProtocols {
		conn, ok := resp.Body.(io.ReadWriteCloser)
		if !ok || !strings.EqualFold(h.Get("Upgrade"), "websocket") || h.Get("Sec-Websocket-Extensions") != "" {
			return unreadable("a protocol")
		}
		resp.Body = socket{&socketReader{swapper: scrub, src: conn}, conn}
		return nil
	}
	for _, name := range []string{"Grpc-Encoding", "Connect-Content-Encoding"} {
		if e := h.Get(name); e != "" && e != "identity" {
			return unreadable("an encoding")
		}
	}
	decoded := &decoder{src: resp.Body, encoding: strings.ToLower(strings.TrimSpace(strings.Join(h["Content-Encoding"], ",")))}
	switch decoded.encoding {
	case "", "identity":
		decoded.opened = resp.Body
	case "gzip", "x-gzip", "zstd":
		h.Del("Content-Encoding")
		h.Del("Content-Length")
		resp.ContentLength = -1
	default:
		return unreadable("an encoding")
	}
	resp.Body = body{&trailed{&swapReader{swapper: scrub, src: decoded}, func() { scrubHeader(resp.Trailer, scrub, back) }}, decoded}
	return nil
}

func unreadable(what string) error {
	return &Refusal{Status: http.StatusBadGateway, Reason: "the server answers in " + what + " that cannot be searched for secrets"}
}

// scrubHeader scrubs the values, and removes fields whose names, which have no case, are secrets.
func scrubHeader(h http.Header, scrub *swapper, back []pair) {
	for name, values := range h {
		for i := range values {
			values[i], _ = scrub.text(values[i])
		}
		for _, p := range back {
			if strings.Contains(strings.ToLower(name), strings.ToLower(p.from)) {
				delete(h, name)
			}
		}
	}
}

type body struct {
	io.Reader
	io.Closer
}

// trailed does something at the end of a stream.
type trailed struct {
	io.Reader
	end func()
}

func (t *trailed) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if err != nil {
		t.end()
	}
	return n, err
}

// A decoder decodes a body when it is first read.
type decoder struct {
	src      io.ReadCloser
	encoding string
	opened   io.Reader
}

const maxZstdWindow = 8 << 20

func (d *decoder) Read(p []byte) (n int, err error) {
	if d.opened == nil && d.encoding == "zstd" {
		d.opened, err = zstd.NewReader(d.src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
	} else if d.opened == nil {
		d.opened, err = gzip.NewReader(d.src)
	}
	if err != nil {
		d.opened = errorReader{err}
	}
	return d.opened.Read(p)
}

func (d *decoder) Close() error { return d.src.Close() }

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }

// socket is a connection that became a WebSocket.
type socket struct {
	*socketReader
	conn io.ReadWriteCloser
}

func (s socket) Write(p []byte) (int, error) { return s.conn.Write(p) }
func (s socket) Close() error                { return s.conn.Close() }

var errFrame = errors.New("the server sends frames that cannot be searched for secrets")

package intercept

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// site is a server, the wall before it, and a program that trusts the sandbox's authority.
type site struct {
	t      testing.TB
	server *Server
	to     Target
	trust  *x509.CertPool

	mu   sync.Mutex
	seen []string // by the server: method, target, host
	ends sync.WaitGroup
}

// newSite serves h as example.com, a name in the certificate of httptest.
func newSite(t testing.TB, h http.HandlerFunc) *site {
	s := &site{t: t, trust: x509.NewCertPool()}
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, fmt.Sprintf("%s %s %s %d", r.Method, r.RequestURI, r.Host, r.ProtoMajor))
		s.mu.Unlock()
		h(w, r)
	}))
	up.EnableHTTP2, up.Config.ErrorLog = true, quiet
	up.StartTLS()
	t.Cleanup(up.Close)
	a, err := OpenAuthority(filepath.Join(t.TempDir(), "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	s.trust.AppendCertsFromPEM(a.PEM())
	roots := x509.NewCertPool()
	roots.AddCert(up.Certificate())
	s.server = &Server{Authority: a, Roots: roots}
	s.to = Target{
		Host: "example.com", Port: 443,
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", up.Listener.Addr().String())
		},
		Permit: func(*http.Request) (func(), *Refusal) { return func() {}, nil },
	}
	t.Cleanup(s.ends.Wait)
	return s
}

// dial is a program that connects; the error of the wall goes to ended.
func (s *site) dial(ended chan<- error) net.Conn {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	defer l.Close()
	out, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	in, err := l.Accept()
	if err != nil {
		s.t.Fatal(err)
	}
	s.ends.Go(func() {
		err := s.server.Serve(s.t.Context(), in, s.to)
		if ended != nil {
			ended <- err
		}
	})
	return out
}

func (s *site) client(h2 bool) *http.Client {
	t := &http.Transport{
		DialContext:     func(context.Context, string, string) (net.Conn, error) { return s.dial(nil), nil },
		TLSClientConfig: &tls.Config{RootCAs: s.trust}, ForceAttemptHTTP2: h2, ExpectContinueTimeout: time.Minute,
	}
	s.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

// raw says something over TLS and returns the answer.
func (s *site) raw(words string) (*bufio.Reader, *tls.Conn) {
	c := tls.Client(s.dial(nil), &tls.Config{RootCAs: s.trust, ServerName: "example.com"})
	s.t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, words); err != nil {
		s.t.Fatal(err)
	}
	return bufio.NewReader(c), c
}

func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

func each(t *testing.T, run func(t *testing.T, h2 bool)) {
	t.Run("http1", func(t *testing.T) { run(t, false) })
	t.Run("http2", func(t *testing.T) { run(t, true) })
}

// Requests and responses arrive as they were sent, in the protocol that the program chose.
func TestCarries(t *testing.T) {
	each(t, func(t *testing.T, h2 bool) {
		s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			w.Header().Set("Trailer", "Grpc-Status")
			w.Header()["X-Twice"] = []string{"a", "b"}
			w.Header()["Content-Type"] = nil
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprintf(w, "%s %q %s %s", b, r.Header["X-Forwarded-For"], r.Header.Get("Te"), r.Trailer.Get("Sum"))
			w.Header().Set("Grpc-Status", "0")
		})
		r, err := http.NewRequest("POST", "https://example.com/a%20b/@x;y?q=1;2&%zz", io.MultiReader(strings.NewReader("up")))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"X-Forwarded-For": {"me"}, "Te": {"trailers"}}
		r.Trailer = http.Header{"Sum": {"42"}}
		resp, err := s.client(h2).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if want := `up ["me"] trailers 42`; string(body) != want || err != nil || resp.StatusCode != http.StatusAccepted {
			t.Errorf("%d %q, %v; want %q", resp.StatusCode, body, err, want)
		}
		if resp.Trailer.Get("Grpc-Status") != "0" || len(resp.Header["X-Twice"]) != 2 || resp.Header["Content-Type"] != nil {
			t.Errorf("trailer %v, header %v", resp.Trailer, resp.Header)
		}
		version := 1
		if h2 {
			version = 2
		}
		if want := fmt.Sprintf("POST /a%%20b/@x;y?q=1;2&%%zz example.com %d", version); len(s.requests()) != 1 || s.requests()[0] != want {
			t.Errorf("the server saw %q, want %q", s.requests(), want)
		}
	})
}

// Neither direction waits for the end of the other, or for more.
func TestStreams(t *testing.T) {
	each(t, func(t *testing.T, h2 bool) {
		s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
			c := http.NewResponseController(w)
			_ = c.EnableFullDuplex()
			w.Header().Set("Content-Type", "text/event-stream")
			_ = c.Flush()
			lines := bufio.NewScanner(r.Body)
			for lines.Scan() {
				fmt.Fprintf(w, "data: %s\n\n", lines.Text())
				_ = c.Flush()
			}
		})
		up, pen := io.Pipe()
		r, err := http.NewRequest("POST", "https://example.com/", up)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.client(h2).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		in := bufio.NewReader(resp.Body)
		for n := range 3 {
			fmt.Fprintln(pen, n)
			line, err := in.ReadString('\n')
			if want := fmt.Sprintf("data: %d\n", n); line != want || err != nil {
				t.Fatalf("%q, %v; want %q", line, err, want)
			}
			_, _ = in.ReadString('\n')
		}
		pen.Close()
		if rest, err := io.ReadAll(in); len(rest) > 0 || err != nil {
			t.Errorf("at the end: %q, %v", rest, err)
		}
	})
}

// A program that waits for 100 gets it from the server, and sends nothing that the server refuses.
func TestExpectContinue(t *testing.T) {
	for status, want := range map[int]string{http.StatusOK: "HTTP/1.1 100 Continue", http.StatusForbidden: "HTTP/1.1 403 Forbidden"} {
		s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
			if status == http.StatusOK {
				_, _ = io.Copy(io.Discard, r.Body)
			}
			w.WriteHeader(status)
		})
		in, _ := s.raw("POST / HTTP/1.1\r\nHost: example.com\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
		if line, err := in.ReadString('\n'); strings.TrimSpace(line) != want || err != nil {
			t.Errorf("%q, %v; want %q", line, err, want)
		}
	}
}

// After an upgrade bytes go both ways, and no more requests are looked for in them.
func TestUpgrade(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			fmt.Fprint(w, "no")
			return
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.Copy(c, rw)
	})
	head := "GET /w HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n"
	in, c := s.raw(fmt.Sprintf(head, "websocket"))
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", resp, err)
	}
	for _, word := range []string{"GET \x00\x01\n\n", "\r\n\r\nand on"} {
		fmt.Fprint(c, word)
		b := make([]byte, len(word))
		if _, err := io.ReadFull(in, b); string(b) != word || err != nil {
			t.Errorf("%q, %v; want %q", b, err, word)
		}
	}
	in, _ = s.raw(fmt.Sprintf(head, "h2c")) // is not passed on
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("h2c: %v, %v", resp, err)
	}
}

// What two readers take for different requests reaches no server.
func TestSmuggling(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	const host = "Host: example.com\r\n"
	for words, want := range map[string]int{
		"POST /ok HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n":                    200,
		"POST /l HTTP/1.1\r\n" + host + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nab":                           400,
		"POST /l HTTP/1.1\r\n" + host + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n":           400,
		"POST /l HTTP/1.1\r\n" + host + "Transfer-Encoding: x, chunked\r\n\r\n0\r\n\r\n":                             501,
		"GET /l HTTP/1.1\r\n" + host + "X: a\r\n b\r\n\r\n":                                                          400,
		"GET /l HTTP/1.1\n" + host + "\r\n":                                                                          400,
		"GET /l HTTP/1.1\r\n" + host + host + "\r\n":                                                                 400,
		"GET /l HTTP/1.1\r\n" + host + "Connection: host\r\n\r\n":                                                    400,
		"GET https://example.com/l HTTP/1.1\r\n" + host + "\r\n":                                                     400,
		"GET http://example.com/l HTTP/1.1\r\n" + host + "\r\n":                                                      400,
		"GET /l/../m HTTP/1.1\r\n" + host + "\r\n":                                                                   400,
		"GET /l/%2e%2E/m HTTP/1.1\r\n" + host + "\r\n":                                                               400,
		"GET /l%2fm HTTP/1.1\r\n" + host + "\r\n":                                                                    400,
		"GET /@l%2fm HTTP/1.1\r\n" + host + "\r\n":                                                                   200, // a package of npm
		"GET /@l%2fm\" HTTP/1.1\r\n" + host + "\r\n":                                                                 400, // would be sent as /@l/m%22
		"GET /@l%2f\xc3\xbc HTTP/1.1\r\n" + host + "\r\n":                                                            400,
		"GET /l//m HTTP/1.1\r\n" + host + "\r\n":                                                                     400,
		"GET //l HTTP/1.1\r\n" + host + "\r\n":                                                                       400,
		"GET /l%00 HTTP/1.1\r\n" + host + "\r\n":                                                                     400,
		"GET /l%252e HTTP/1.1\r\n" + host + "\r\n":                                                                   400,
		"OPTIONS * HTTP/1.1\r\n" + host + "\r\n":                                                                     400,
		"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n":                                          403,
		"GET /l HTTP/1.1\r\nHost: other.example\r\n\r\n":                                                             421,
		"GET /l HTTP/1.1\r\nHost: example.com:80\r\n\r\n":                                                            421,
		"GET /ok HTTP/1.1\r\nHost: EXAMPLE.com.:443\r\n\r\n":                                                         200,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                                                                           505,
		"POST /ok HTTP/1.1\r\n" + host + "Content-Length: 2\r\n\r\nabGET /l HTTP/1.1\r\nHost: other.example\r\n\r\n": 200,
	} {
		in, c := s.raw(words)
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode != want {
			t.Errorf("%q: %v, %v; want %d", words, resp, err, want)
		} else {
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		c.Close()
	}
	for _, seen := range s.requests() {
		if strings.Contains(seen, "/l") || strings.Contains(seen, "other") || strings.HasPrefix(seen, "OPTIONS") {
			t.Errorf("the server saw %s", seen)
		}
	}
	// A chunk that is longer than it says ends the request, and the connection with it.
	in, _ := s.raw("POST /ok HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n2\r\nabcGET /l HTTP/1.1\r\n" + host + "\r\n")
	if resp, err := http.ReadResponse(in, nil); err == nil && resp.StatusCode == http.StatusOK {
		t.Errorf("a chunk that is too long: %v", resp)
	}
}

// HTTP/2 has other ways to name a host.
func TestOtherAuthority(t *testing.T) {
	s := newSite(t, func(http.ResponseWriter, *http.Request) {})
	r, err := http.NewRequest("GET", "https://example.com/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "other.example"
	resp, err := s.client(true).Do(r)
	if err != nil || resp.StatusCode != http.StatusMisdirectedRequest || resp.ProtoMajor != 2 {
		t.Errorf("%v, %v", resp, err)
	}
	if seen := s.requests(); len(seen) > 0 {
		t.Errorf("the server saw %q", seen)
	}
}

// Each request is decided, and done is called once for each that was allowed.
func TestPermit(t *testing.T) {
	each(t, func(t *testing.T, h2 bool) {
		s := newSite(t, func(http.ResponseWriter, *http.Request) {})
		var open sync.WaitGroup
		s.to.Permit = func(r *http.Request) (func(), *Refusal) {
			if r.Method != "GET" {
				return nil, &Refusal{Rule: "read", Reason: "only GET", Allow: "nothing"}
			}
			open.Add(1)
			return open.Done, nil
		}
		c := s.client(h2)
		for _, method := range []string{"GET", "POST", "GET"} {
			r, _ := http.NewRequest(method, "https://example.com/", strings.NewReader("x"))
			resp, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			if method == "POST" && (resp.StatusCode != 403 || !strings.Contains(string(body), `"error":"denied","host":"example.com","port":443,"rule":"read","reason":"only GET","allow":"nothing"`)) {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
		}
		open.Wait()
		if n := len(s.requests()); n != 2 {
			t.Errorf("the server saw %q", s.requests())
		}
	})
}

// marked is a stage that says what it saw.
type marked string

func (m marked) Wants(host string, port uint16) bool { return m != "blind" && host == "example.com" }

func (m marked) Exchange(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	if m == "no" {
		return nil, &Refusal{Rule: "stage", Reason: "no"}
	}
	r.Header.Add("X-Saw", string(m))
	return next.RoundTrip(r)
}

// Stages see requests in order, those that want to.
func TestStages(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header["X-Saw"]) })
	s.server.Stages = []Stage{marked("one"), marked("blind"), marked("two")}
	resp, err := s.client(true).Get("https://example.com/")
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(resp.Body); string(b) != "[one two]" {
		t.Errorf("%s", b)
	}
	s.server.Stages = []Stage{marked("one"), marked("no")}
	if resp, err = s.client(true).Get("https://example.com/"); err != nil || resp.StatusCode != 403 {
		t.Errorf("%v, %v", resp, err)
	}
}

// A server that cannot prove its name gets no request, and the program learns why.
func TestUpstreamUnverified(t *testing.T) {
	s := newSite(t, func(http.ResponseWriter, *http.Request) {})
	s.server.Roots = x509.NewCertPool()
	resp, err := s.client(true).Get("https://example.com/")
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 502 || !strings.Contains(string(b), "has not proved to be example.com") {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
	s.to.Dial = func(context.Context) (net.Conn, error) { return nil, &Refusal{Rule: "address", Reason: "private"} }
	if resp, err = s.client(false).Get("https://example.com/"); err != nil || resp.StatusCode != 403 {
		t.Errorf("%v, %v", resp, err)
	}
	if seen := s.requests(); len(seen) > 0 {
		t.Errorf("the server saw %q", seen)
	}
}

// A program that does not trust the authority is told apart from others that give up.
func TestUntrusted(t *testing.T) {
	s := newSite(t, func(http.ResponseWriter, *http.Request) {})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		ended := make(chan error, 1)
		c := tls.Client(s.dial(ended), &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "example.com", MaxVersion: version})
		if err := c.Handshake(); err == nil {
			t.Error("the program trusts everybody")
		}
		c.NetConn().Close()
		if err := <-ended; !errors.Is(err, ErrUntrusted) {
			t.Errorf("version %x: %v", version, err)
		}
	}
	ended := make(chan error, 1)
	s.dial(ended).Close()
	if err := <-ended; err == nil || errors.Is(err, ErrUntrusted) {
		t.Errorf("a program that hung up: %v", err)
	}
}

// The authority outlives a process, is nobody else's to read, and can make no other authority.
func TestAuthority(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.pem")
	a, err := OpenAuthority(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := OpenAuthority(path)
	if err != nil || string(a.PEM()) != string(b.PEM()) || strings.Contains(string(a.PEM()), "PRIVATE") {
		t.Errorf("opened again: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if a.cert.MaxPathLen != 0 || !a.cert.MaxPathLenZero {
		t.Error("the authority may have others below it")
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	for host, ok := range map[string]bool{"example.com": true, "192.0.2.1": true, "2001:db8::1": true} {
		c, err := b.certificate(host)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := b.certificate(host)
		if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); (err == nil) != ok || again != c {
			t.Errorf("%s: %v", host, err)
		}
		if life := c.Leaf.NotAfter.Sub(c.Leaf.NotBefore); life > 26*time.Hour || c.Leaf.IsCA {
			t.Errorf("%s: valid for %v", host, life)
		}
	}
	for n := range 2 * maxLeaves {
		if _, err := b.certificate(fmt.Sprintf("h%d.example", n)); err != nil || len(b.leaves) > maxLeaves {
			t.Fatalf("%d certificates are kept, %v", len(b.leaves), err)
		}
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAuthority(path); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("a damaged file: %v", err)
	}
}

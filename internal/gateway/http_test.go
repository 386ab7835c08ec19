package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/policy"
)

// web serves name:80 with net/http.
func (r *rig) web(name string, h http.HandlerFunc) {
	r.t.Helper()
	conns := make(chan net.Conn)
	l := &chanListener{conns, make(chan struct{})}
	s := &http.Server{Handler: h}
	go s.Serve(l)
	r.t.Cleanup(func() { s.Close() })
	r.serve(name, 80, func(c *net.TCPConn) {
		w := &noticed{Conn: c, closed: make(chan struct{})}
		conns <- w
		<-w.closed
	})
}

type chanListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *chanListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *chanListener) Close() error   { close(l.closed); return nil }
func (l *chanListener) Addr() net.Addr { return &net.TCPAddr{} }

// client is an HTTP client inside.
func (r *rig) client() *http.Client {
	return &http.Client{
		Transport: &http.Transport{DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
			host, port, _ := net.SplitHostPort(addr)
			n := 80
			fmt.Sscan(port, &n)
			return r.connect(host, uint16(n)), nil
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// TestHTTPExchanges: bodies of all shapes pass both ways, on one connection.
func TestHTTPExchanges(t *testing.T) {
	for _, rule := range []string{"allow example.com", "allow example.com http"} {
		t.Run(rule, func(t *testing.T) {
			r := newRig(t, rules(t, rule))
			r.web("example.com", func(w http.ResponseWriter, q *http.Request) {
				w.Header().Set("X-Mixed-CASE", "kept")
				w.Header().Set("Trailer", "X-End")
				switch q.URL.Path {
				case "/redirect":
					http.Redirect(w, q, "http://denied.com/", http.StatusFound)
				case "/empty":
					w.WriteHeader(http.StatusNoContent)
				default:
					b, _ := io.ReadAll(q.Body)
					if q.URL.Path == "/length" {
						w.Header().Set("Content-Length", fmt.Sprint(len(b)))
					}
					w.Write(b)
					w.Header().Set("X-End", "there")
				}
			})
			client := r.client()
			big := strings.Repeat("0123456789abcdef", 100_000)
			for n, test := range []struct {
				method, path, body string
				chunked, expect    bool
				status             int
			}{
				{"GET", "/", "", false, false, 200},
				{"POST", "/length", "short", false, false, 200},
				{"POST", "/length", big, false, false, 200},
				{"POST", "/chunked", big, true, false, 200},
				{"PUT", "/chunked", big, true, true, 200},
				{"PUT", "/length", big, false, true, 200},
				{"HEAD", "/length", "", false, false, 200},
				{"GET", "/redirect", "", false, false, 302},
				{"DELETE", "/empty", "", false, false, 204},
				{"GET", "/again", "", false, false, 200},
			} {
				var body io.Reader = strings.NewReader(test.body)
				if test.chunked {
					body = io.MultiReader(body) // hides the length
				}
				q, _ := http.NewRequest(test.method, "http://example.com"+test.path, body)
				if test.expect {
					q.Header.Set("Expect", "100-continue")
					client.Transport.(*http.Transport).ExpectContinueTimeout = 1 << 40
				}
				resp, err := client.Do(q)
				if err != nil {
					t.Fatalf("%d: %v", n, err)
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				want := test.body
				if test.status != 200 {
					want = string(got)
				}
				if err != nil || resp.StatusCode != test.status || string(got) != want {
					t.Errorf("%d: status %d, %d bytes of %d, %v", n, resp.StatusCode, len(got), len(test.body), err)
				}
				if test.path == "/chunked" && resp.Trailer.Get("X-End") != "there" {
					t.Errorf("%d: trailers %v", n, resp.Trailer)
				}
			}
			if d := r.world.dialled(); len(d) != 6 { // a body ends a connection, and nothing else does
				t.Errorf("dialled %v", d)
			}
		})
	}
}

// script is a server that answers each head with the next of some responses.
func script(responses ...string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		br := bufio.NewReader(c)
		for _, resp := range responses {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if q.Header.Get("Expect") == "" {
				io.Copy(io.Discard, q.Body)
			}
			io.WriteString(c, resp)
			if q.Close {
				return
			}
		}
		io.Copy(io.Discard, br)
	}
}

const ok = "HTTP/1.1 200 OK\r\ncontent-LENGTH: 2\r\n\r\nok"

func TestHTTPFaithful(t *testing.T) {
	head := "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"
	last := "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n"
	for _, test := range []struct {
		what, send, respond, want string
	}{
		{"header order and case", last, "HTTP/1.1 200 Fine\r\nzZ:  1\r\nAa:\t2 \r\ncontent-LENGTH: 2\r\n\r\nok", "HTTP/1.1 200 Fine\r\nzZ:  1\r\nAa:\t2 \r\ncontent-LENGTH: 2\r\n\r\nok"},
		{"early hints", last, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok},
		{"until close", head, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nsome|END", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nsome"},
		{"HTTP/1.0", head, "HTTP/1.0 200 OK\r\n\r\nsome|END", "HTTP/1.0 200 OK\r\n\r\nsome"},
		{"no HTTP", head, "garbage\r\n\r\nmore|END", "garbage\r\n\r\nmore"},
		{"no head at all", head, "garbage|END", "garbage"},
		{"cut off", head, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nsome|END", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nsome"},
		{"chunk extension", last, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\n\r\n|END", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\n\r\n"},
		{"closed without an answer", head, "|END", ""},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rules(t, "allow example.com http"))
			r.serve("example.com", 80, func(c *net.TCPConn) {
				resp, end := strings.CutSuffix(test.respond, "|END")
				br := bufio.NewReader(c)
				q, err := http.ReadRequest(br)
				if err != nil {
					return
				}
				io.WriteString(c, resp)
				if !end && !q.Close {
					io.Copy(io.Discard, br)
				}
			})
			c := r.connect("example.com", 80)
			io.WriteString(c, test.send)
			if said, end := outcome(c); said != test.want || end != "eof" {
				t.Errorf("ended with %s after %q", end, said)
			}
		})
	}
}

// TestHTTPPipeline: every request is decided by itself, and a refusal comes in its place.
func TestHTTPPipeline(t *testing.T) {
	for _, test := range []struct{ what, bad, status string }{
		{"path", "GET /no HTTP/1.1\r\nHost: example.com\r\n\r\n", "403"},
		{"host", "GET /a HTTP/1.1\r\nHost: evil.com\r\n\r\n", "421"},
		{"shape", "GET /a HTTP/1.1\r\nHost: example.com\r\nHost: example.com\r\n\r\n", "400"},
		{"connect", "CONNECT evil.com:80 HTTP/1.1\r\nHost: evil.com:80\r\n\r\n", "403"},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rules(t, "allow example.com http paths=/a"))
			var got recorder
			r.serve("example.com", 80, func(c *net.TCPConn) {
				br := bufio.NewReader(io.TeeReader(c, &got))
				for {
					if _, err := http.ReadRequest(br); err != nil {
						return
					}
					io.WriteString(c, ok)
				}
			})
			good := "GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n"
			c := r.connect("example.com", 80)
			io.WriteString(c, good+good+test.bad+good)
			said, _ := outcome(c)
			rest, found := strings.CutPrefix(said, ok+ok)
			if !found || !strings.HasPrefix(rest, "HTTP/1.1 "+test.status+" ") || strings.Count(rest, "HTTP/1.1") != 1 {
				t.Errorf("%q", said)
			}
			if got.bytes() != good+good {
				t.Errorf("the server got %q", got.bytes())
			}
		})
	}
}

func (s *recorder) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, b...)
	return len(b), nil
}

// TestHTTPUpgrade: after 101 the connection is a relay; without it, it stays HTTP.
func TestHTTPUpgrade(t *testing.T) {
	offer := "GET /ws HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	switched := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	t.Run("accepted", func(t *testing.T) {
		r := newRig(t, rules(t, "allow example.com http"))
		r.serve("example.com", 80, func(c *net.TCPConn) {
			br := bufio.NewReader(c)
			http.ReadRequest(br)
			io.WriteString(c, switched+"hello")
			io.Copy(c, br)
		})
		c := r.connect("example.com", 80)
		io.WriteString(c, offer+"GET /raw HTTP/1.1\r\nHost: evil.com\r\n\r\n")
		c.CloseWrite()
		said, end := outcome(c)
		if want := switched + "helloGET /raw HTTP/1.1\r\nHost: evil.com\r\n\r\n"; said != want || end != "eof" {
			t.Errorf("ended with %s after %q", end, said)
		}
	})
	t.Run("not accepted", func(t *testing.T) {
		r := newRig(t, rules(t, "allow example.com http"))
		r.serve("example.com", 80, script(ok, ok))
		c := r.connect("example.com", 80)
		io.WriteString(c, offer+"GET /raw HTTP/1.1\r\nHost: evil.com\r\n\r\n")
		if said, _ := outcome(c); !strings.HasPrefix(said, ok+"HTTP/1.1 421 ") {
			t.Errorf("%q", said)
		}
	})
	t.Run("never offered", func(t *testing.T) {
		r := newRig(t, rules(t, "allow example.com http"))
		r.serve("example.com", 80, script(switched))
		c := r.connect("example.com", 80)
		io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: example.com\r\n\r\nGET /raw HTTP/1.1\r\nHost: evil.com\r\n\r\n")
		if said, _ := outcome(c); !strings.HasPrefix(said, switched+"HTTP/1.1 421 ") {
			t.Errorf("%q", said)
		}
	})
	for _, offer := range []string{"h2c", "H2C", "h2c;q=1", "websocket, h2c", "websocket h2c", `"h2c"`, "tls/1.3", "spdy/3.1"} {
		t.Run("to "+offer, func(t *testing.T) {
			r := newRig(t, rules(t, "allow example.com http"))
			var got recorder
			r.serve("example.com", 80, func(c *net.TCPConn) {
				http.ReadRequest(bufio.NewReader(io.TeeReader(c, &got)))
				io.WriteString(c, ok)
			})
			c := r.connect("example.com", 80)
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade, HTTP2-Settings\r\nUPGRADE: "+offer+"\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nA: b\r\n\r\n")
			if said, _ := outcome(c); said != ok {
				t.Errorf("%q", said)
			}
			if want := "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade, HTTP2-Settings\r\nA: b\r\n\r\n"; got.bytes() != want {
				t.Errorf("the server got %q", got.bytes())
			}
		})
	}
}

// TestHTTPBody: a request with a body is the last on its connection, and says so.
func TestHTTPBody(t *testing.T) {
	hidden := "DELETE /private HTTP/1.1\r\nHost: evil.com\r\n\r\n"
	for _, rule := range []string{"allow example.com", "allow example.com http paths=/a"} {
		for method, refused := range map[string]bool{"GET": true, "HEAD": true, "DELETE": true, "OPTIONS": true, "POST": false} {
			r := newRig(t, rules(t, rule))
			var got recorder
			r.serve("example.com", 80, func(c *net.TCPConn) { // reads no bodies
				br := bufio.NewReader(io.TeeReader(c, &got))
				q, err := http.ReadRequest(br)
				if err != nil {
					return
				}
				io.WriteString(c, ok)
				if !q.Close {
					t.Errorf("%s: the server is not told that it is the last", method)
				}
			})
			c := r.connect("example.com", 80)
			io.WriteString(c, fmt.Sprintf("%s /a HTTP/1.1\r\nHost: example.com\r\nConnection: keep-alive\r\nContent-Length: %d\r\n\r\n%s", method, len(hidden), hidden))
			io.WriteString(c, "GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n")
			said, _ := outcome(c)
			if refused = refused && strings.Contains(rule, "paths"); refused != strings.HasPrefix(said, "HTTP/1.1 400 ") || !refused && said != ok {
				t.Errorf("%s, %s: %q", rule, method, said)
			}
			if refused && got.bytes() != "" || strings.Contains(got.bytes(), "GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n") {
				t.Errorf("%s, %s: the server got %q", rule, method, got.bytes())
			}
		}
	}
}

// TestHTTPBadBody: a body that cannot be followed ends the connection before its end.
func TestHTTPBadBody(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com http"))
	got := recorder{ended: make(chan struct{}, 1)}
	r.serve("example.com", 80, got.handle)
	c := r.connect("example.com", 80)
	head := "POST / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n"
	io.WriteString(c, head+"2;x=\r\nab\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: evil.com\r\n\r\n")
	if said, _ := outcome(c); !strings.HasPrefix(said, "HTTP/1.1 400 ") {
		t.Errorf("%q", said)
	}
	<-got.ended
	if want := strings.Replace(head, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1); got.bytes() != want {
		t.Errorf("the server got %q", got.bytes())
	}
}

// TestHTTPEarlyAnswer: a server that answers before it has the body is heard.
func TestHTTPEarlyAnswer(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com http"))
	const tooLarge = "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	r.serve("example.com", 80, func(c *net.TCPConn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, tooLarge)
	})
	c := r.connect("example.com", 80)
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 1000000000\r\n\r\nsome")
	if said, _ := outcome(c); said != tooLarge {
		t.Errorf("%q", said)
	}
}

// TestHTTPDuplex: a server that streams its answer while the body still comes.
func TestHTTPDuplex(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com http"))
	r.web("example.com", func(w http.ResponseWriter, q *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(200)
		http.NewResponseController(w).Flush()
		b := make([]byte, 100)
		for {
			n, err := q.Body.Read(b)
			w.Write(b[:n])
			http.NewResponseController(w).Flush()
			if err != nil {
				return
			}
		}
	})
	pr, pw := io.Pipe()
	q, _ := http.NewRequest("POST", "http://example.com/", pr)
	resp, err := r.client().Do(q)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"one", "two", "three"} {
		io.WriteString(pw, word)
		b := make([]byte, len(word))
		if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != word {
			t.Fatalf("%q, %v", b, err)
		}
	}
	pw.Close()
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
}

// TestHTTPUnsolicited: a server that gives up waiting is heard, and its end seen.
func TestHTTPUnsolicited(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com http"))
	const tired = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"
	r.serve("example.com", 80, func(c *net.TCPConn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, ok)
		io.WriteString(c, tired)
	})
	c := r.connect("example.com", 80)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
	if said, end := outcome(c); said != ok+tired || end != "eof" {
		t.Errorf("ended with %s after %q", end, said)
	}
}

// TestUnreachable: allowed, but it cannot be had.
func TestUnreachable(t *testing.T) {
	for _, rule := range []string{"allow example.com", "allow example.com http"} {
		r := newRig(t, rules(t, rule))
		c := r.connect("example.com", 80)
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
		if said, _ := outcome(c); !strings.HasPrefix(said, "HTTP/1.1 502 ") || !strings.Contains(said, `"unreachable"`) {
			t.Errorf("no name: %q", said)
		}
		r.world.name("example.com", []netip.Addr{public})
		c = r.connect("example.com", 80)
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
		if said, _ := outcome(c); !strings.HasPrefix(said, "HTTP/1.1 502 ") || !strings.Contains(said, "connection refused") {
			t.Errorf("nobody there: %q", said)
		}
		if e := r.waitEvents("flow", 2)[1]; e.Verdict != policy.Allow.String() || !strings.Contains(e.Close, "could not connect") {
			t.Errorf("%+v", e)
		}
		if len(r.g.Denials()) != 0 {
			t.Error("it counts as a denial")
		}
	}
	r := newRig(t, rules(t, "allow example.com"))
	c := r.connect("example.com", 443)
	c.Write(clientHello(t, "example.com"))
	// There is no alert for it that would not blame the server.
	if said, end := outcome(c); said != "" || end != "reset" {
		t.Errorf("TLS: %s after %q", end, said)
	}
	r.g.limits.sniff = time.Millisecond
	if said, end := outcome(r.connect("example.com", 22)); said != "" || end != "reset" {
		t.Errorf("silent: %s after %q", end, said)
	}
	// Who is outside is told, and who is inside can ask.
	r.mu.Lock()
	missed := r.missed
	r.mu.Unlock()
	if len(missed) != 2 || missed[0].Host != "example.com" || missed[0].Port != 443 || missed[0].Allow != "" || missed[0].Reason == "" {
		t.Errorf("told %+v", missed)
	}
	ask := r.asker()
	if _, text := ask("GET", "/", ""); !strings.Contains(text, "could not be reached lately:\n") || !strings.Contains(text, "example.com:443, once: the name cannot be resolved") {
		t.Error(text)
	}
	if _, text := ask("GET", "/unreachable", ""); !strings.Contains(text, `"host":"example.com"`) {
		t.Error(text)
	}
}

package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/intercept"
	"github.com/cofferhq/coffer/internal/policy"
)

// A spied is a rig with a TLS server at example.com, and a program that trusts the sandbox's authority.
type spied struct {
	*rig
	trust *x509.CertPool
	mu    sync.Mutex
	seen  []string
	hold  chan struct{} // a request for /hold is answered when it is closed
}

func newSpied(t *testing.T, lines ...string) *spied {
	a, err := intercept.OpenAuthority(filepath.Join(t.TempDir(), "authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	s := &spied{trust: x509.NewCertPool(), hold: make(chan struct{})}
	s.trust.AppendCertsFromPEM(a.PEM())
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		if r.URL.Path == "/hold" {
			_ = http.NewResponseController(w).Flush()
			select {
			case <-s.hold:
			case <-r.Context().Done():
			}
		}
		_, _ = io.Copy(w, r.Body)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(s.hold) })
	s.rig = newRig(t, rules(t, lines...), func(c *Config, _ *limits) { c.Authority = a })
	s.g.roots = x509.NewCertPool()
	s.g.roots.AddCert(server.Certificate())
	forward := func(c *net.TCPConn) {
		up, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			return
		}
		defer up.Close()
		go func() { _, _ = io.Copy(up, c); up.Close() }()
		_, _ = io.Copy(c, up)
	}
	s.serve("example.com", 443, forward)
	return s
}

func (s *spied) client(h2 bool) *http.Client {
	t := &http.Transport{
		DialContext:     func(context.Context, string, string) (net.Conn, error) { return s.connect("example.com", 443), nil },
		TLSClientConfig: &tls.Config{RootCAs: s.trust}, ForceAttemptHTTP2: h2,
	}
	s.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

func ask(t *testing.T, c *http.Client, method, path, body string) string {
	t.Helper()
	r, err := http.NewRequest(method, "https://example.com"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(r)
	if err != nil {
		return "error"
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return "broken"
	}
	return fmt.Sprint(resp.StatusCode, " ", string(b))
}

// Requests in TLS are decided one by one, also on a connection on which others were allowed.
func TestLooksInto(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		s := newSpied(t, "allow example.com:443 methods=GET,PUT paths=/api/**", "deny example.com methods=PUT paths=/api/no")
		c := s.client(h2)
		for _, request := range []struct{ method, path, body, want string }{
			{"GET", "/api/a", "", "200 "},
			{"POST", "/api/b", "x", "403 {"},
			{"PUT", "/api/c", "body", "200 body"},
			{"PUT", "/api/no", "body", "403 {"},
			{"GET", "/b", "", "403 {"},
			{"GET", "/api/d", "body", "400 {"}, // which some servers take for a request
			{"GET", "/api/e", "", "200 "},
		} {
			if got := ask(t, c, request.method, request.path, request.body); !strings.HasPrefix(got, request.want) || strings.HasPrefix(got, "403") && !strings.Contains(got, "example.com") {
				t.Errorf("%s %s: %s, want %s", request.method, request.path, got, request.want)
			}
		}
		s.mu.Lock()
		if seen := strings.Join(s.seen, ", "); seen != "GET /api/a, PUT /api/c, GET /api/e" {
			t.Errorf("the server saw %s", seen)
		}
		s.mu.Unlock()
		c.CloseIdleConnections()
		var allowed audit.Event
		for n := 1; allowed.Path == ""; n++ {
			for _, e := range s.waitEvents(audit.KindFlow, n) {
				if e.Verdict == "allow" && e.Path == "/api/a" {
					allowed = e
				}
			}
		}
		if allowed.Method != "GET" || allowed.Sent == 0 || allowed.Received == 0 || allowed.Addr != public {
			t.Errorf("in the log: %+v", allowed)
		}
	}
}

// What the rules would have to see and cannot is refused.
func TestLooksIntoOrRefuses(t *testing.T) {
	s := newSpied(t, "allow example.com inspect", "allow other.com", "allow 93.184.215.14")
	if got := ask(t, s.client(true), "POST", "/", "x"); got != "200 x" {
		t.Errorf("with an authority: %s", got)
	}
	s.g.cfg.Authority = nil
	if got := ask(t, s.client(true), "POST", "/", "x"); got != "error" {
		t.Errorf("without: %s", got)
	}
	// The way round by an address.
	c := tls.Client(s.connectTo(netip.AddrPortFrom(public, 443)), &tls.Config{ServerName: "example.com", InsecureSkipVerify: true})
	if err := c.Handshake(); err == nil {
		t.Error("an address leads to a name that is looked into")
	}
	if n := len(s.seen); n != 1 {
		t.Errorf("the server saw %q", s.seen)
	}
}

// TLS that is to be passed on is the server's own.
func TestPassesTLS(t *testing.T) {
	s := newSpied(t, "allow example.com inspect", "allow *.com tls=pass")
	s.trust = s.g.roots
	if got := ask(t, s.client(true), "POST", "/", "x"); got != "200 x" {
		t.Errorf("%s", got)
	}
}

// A change of the rules ends connections on which something is said that they no longer allow,
// and those that they want to look into.
func TestChangeInside(t *testing.T) {
	s := newSpied(t, "allow example.com methods=GET")
	c := s.client(true)
	r, _ := http.NewRequest("GET", "https://example.com/hold", nil)
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, c, "GET", "/x", ""); got != "200 " { // on the same connection
		t.Fatal(got)
	}
	s.g.SetPolicy(rules(t, "allow example.com methods=GET", "allow other.com"))
	if got := ask(t, c, "GET", "/y", ""); got != "200 " {
		t.Errorf("after a change that is about something else: %s", got)
	}
	s.g.SetPolicy(rules(t, "allow example.com methods=GET paths=/x,/y"))
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the response went on")
	}

	s = newSpied(t, "allow example.com")
	s.trust = s.g.roots
	resp, err = s.client(true).Get("https://example.com/hold")
	if err != nil {
		t.Fatal(err)
	}
	s.g.SetPolicy(rules(t, "allow example.com inspect"))
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("nobody looks into it, and it went on")
	}
}

// The bytes on the wire count.
func TestBudgetInside(t *testing.T) {
	s := newSpied(t, "allow example.com inspect up=64k")
	if got := ask(t, s.client(true), "POST", "/", "x"); got != "200 x" {
		t.Errorf("%s", got)
	}
	if got := ask(t, s.client(true), "POST", "/", strings.Repeat("x", 128<<10)); strings.HasPrefix(got, "200") {
		t.Error("more was sent than may be")
	}
	s.waitEvents(audit.KindLimit, 1)
}

// Requests beside one with a budget do not take its bytes off it.
func TestBudgetBeside(t *testing.T) {
	s := newSpied(t, "allow example.com methods=POST up=64k", "allow example.com methods=GET")
	c := s.client(true)
	body, words := io.Pipe()
	defer body.Close()
	go func() {
		for range 64 {
			ask(t, c, "GET", "/x", "")
			if _, err := io.WriteString(words, strings.Repeat("x", 16<<10)); err != nil {
				return
			}
		}
		words.Close()
	}()
	r, err := http.NewRequest("POST", "https://example.com/up", body)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := c.Do(r); err == nil {
		if n, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Errorf("%d bytes were sent", n)
		}
		resp.Body.Close()
	}
	s.waitEvents(audit.KindLimit, 1)
}

// A flow that ran out of its budget may have none any more when that is told: a request without
// one was allowed in the same moment.
func TestBudgetGone(t *testing.T) {
	c := &clearance{}
	if r := c.spent(); r.decision.Verdict != policy.Deny || r.decision.Reason == "" {
		t.Errorf("%+v", r.decision)
	}
}

// The user is asked about a request, with its method and path.
func TestAskInside(t *testing.T) {
	s := newSpied(t, "ask example.com methods=POST paths=/a", "allow example.com methods=GET")
	got := make(chan string)
	go func() { got <- ask(t, s.client(true), "POST", "/a", "x") }()
	q := <-s.asked
	if q.Method != "POST" || q.Path != "/a" || q.Protocol != policy.TLS {
		t.Errorf("asked: %+v", q)
	}
	if len(s.world.dialled()) > 0 {
		t.Error("the server was dialled before the answer")
	}
	if err := s.g.Answer(q.ID, true); err != nil {
		t.Fatal(err)
	}
	if got := <-got; got != "200 x" {
		t.Errorf("after a yes: %s", got)
	}
}

// That a program does not trust the authority is told to the user, with what helps.
func TestUntrustedInside(t *testing.T) {
	s := newSpied(t, "allow example.com inspect")
	s.trust = x509.NewCertPool()
	if got := ask(t, s.client(true), "GET", "/", ""); got != "error" {
		t.Error(got)
	}
	s.waitEvents(audit.KindFlow, 1)
	s.rig.mu.Lock()
	defer s.rig.mu.Unlock()
	if len(s.missed) != 1 || !strings.Contains(s.missed[0].Reason, `tls = "pass"`) {
		t.Errorf("told: %+v", s.missed)
	}
}

// What a program calls the host at an address proves nothing: it could be a denied one's.
func TestNamedByTheProgram(t *testing.T) {
	var server recorder
	r := newRig(t, rules(t, "default=allow", "deny evil.example"))
	r.world.name("good.example", []netip.Addr{public})
	to := netip.AddrPortFrom(public, 80)
	r.serveAt(to, server.handle)
	for _, words := range []string{string(clientHello(t, "good.example")), "GET / HTTP/1.1\r\nHost: good.example\r\n\r\n"} {
		c := r.connectTo(to)
		_, _ = io.WriteString(c, words)
		_ = c.CloseWrite()
		outcome(c)
	}
	if got := server.bytes(); len(got) > 0 {
		t.Errorf("the server was sent %q", got)
	}
}

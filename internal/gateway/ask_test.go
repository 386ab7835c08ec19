package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/ui"
)

const getRequest = "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n"

// waitPending waits until one open question has so many flows.
func (r *rig) waitPending(flows int) Request {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for _, p := range r.g.Pending() {
			if p.Flows == flows {
				return p
			}
		}
	}
	r.t.Fatalf("no question with %d flows: %+v", flows, r.g.Pending())
	return Request{}
}

func TestAsk(t *testing.T) {
	for _, test := range []struct {
		what, send, rule string
		protocol         string
	}{
		{"HTTP", getRequest, "ask example.com", "http"},
		{"TLS", string(clientHello(t, "example.com")), "ask example.com tls", "tls"},
		{"raw", "\x00raw", "ask example.com", "tcp"},
		{"silent", "", "ask example.com", "tcp"},
	} {
		for _, allow := range []bool{true, false} {
			t.Run(fmt.Sprint(test.what, allow), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, rules(t, test.rule), func(c *Config, l *limits) {
					if test.send == "" {
						silent(c, l)
					}
				})
				r.serve("example.com", 80, func(c *net.TCPConn) {
					io.WriteString(c, "hi")
					io.ReadFull(c, make([]byte, len(test.send)))
				})
				c := r.connect("example.com", 80)
				io.WriteString(c, test.send)
				q := <-r.asked
				if q.Host != "example.com" || q.Port != 80 || q.Protocol.String() != test.protocol || q.Rule != test.rule || q.ID == 0 {
					t.Errorf("%+v", q)
				}
				second := r.connect("example.com", 80)
				io.WriteString(second, test.send)
				r.waitPending(2)
				if d := r.world.dialled(); len(d) > 0 {
					t.Errorf("dialled %v before the answer", d)
				}
				if err := r.g.Answer(q.ID, allow); err != nil {
					t.Fatal(err)
				}
				for _, c := range []net.Conn{c, second} {
					said, end := outcome(c)
					if allow && said != "hi" || !allow && strings.HasPrefix(said, "hi") {
						t.Errorf("%s after %q", end, said)
					}
				}
				if len(r.asked) != 0 || len(r.g.Pending()) != 0 {
					t.Errorf("asked again, or still pending: %+v", r.g.Pending())
				}
				if err := r.g.Answer(q.ID, allow); err == nil || ui.HintOf(err) == "" {
					t.Errorf("answered twice: %v", err)
				}
				if allow {
					return
				}
				// A no holds for a while without a new question.
				c = r.connect("example.com", 80)
				io.WriteString(c, test.send)
				if said, _ := outcome(c); strings.HasPrefix(said, "hi") || len(r.asked) != 0 {
					t.Errorf("%q, %d new questions", said, len(r.asked))
				}
				if d := r.world.dialled(); len(d) > 0 {
					t.Errorf("dialled %v", d)
				}
			})
		}
	}
}

// TestAskWrongName: what is refused anyway is not asked about.
func TestAskWrongName(t *testing.T) {
	r := newRig(t, rules(t, "ask example.com"))
	c := r.connect("example.com", 443)
	c.Write(clientHello(t, "evil.com"))
	if said, _ := outcome(c); len(said) != 7 || said[0] != 21 {
		t.Errorf("%q", said)
	}
	if len(r.asked) != 0 {
		t.Error("the user was asked")
	}
}

// TestAskNotNeeded: a protocol that is allowed waits for nobody, beside one that asks.
func TestAskNotNeeded(t *testing.T) {
	r := newRig(t, rules(t, "default=ask", "allow example.com tls"))
	r.serve("example.com", 443, func(c *net.TCPConn) { io.ReadFull(c, make([]byte, 10)); io.WriteString(c, "hi") })
	c := r.connect("example.com", 443)
	c.Write(clientHello(t, "example.com"))
	b := make([]byte, 2)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "hi" || len(r.asked) != 0 {
		t.Errorf("%q, %v, %d questions", b, err, len(r.asked))
	}
}

func TestAskTimeout(t *testing.T) {
	r := newRig(t, rules(t, "ask example.com"), func(c *Config, _ *limits) { c.AskTimeout = 10 * time.Millisecond })
	c := r.connect("example.com", 80)
	io.WriteString(c, getRequest)
	if said, _ := outcome(c); !strings.HasPrefix(said, "HTTP/1.1 403 ") || !strings.Contains(said, "did not answer in time") {
		t.Errorf("%q", said)
	}
}

// TestAskAddress: a yes to a special address is an answer; a yes to a name that
// resolves to one is not.
func TestAskAddress(t *testing.T) {
	r := newRig(t, rules(t, "ask 10.0.0.0/8", "ask example.com"), silent)
	r.serveAt(mustPort("10.1.2.3:80"), func(c *net.TCPConn) { io.WriteString(c, "hi") })
	r.world.name("example.com", addrs("10.1.2.3"))
	c := r.connectTo(mustPort("10.1.2.3:80"))
	if q := <-r.asked; q.Host != "10.1.2.3" {
		t.Errorf("%+v", q)
	} else {
		r.g.Answer(q.ID, true)
	}
	if said, end := outcome(c); said != "hi" {
		t.Errorf("%s after %q", end, said)
	}
	c.Close()
	r.waitEvents("flow", 1)
	c = r.connect("example.com", 80)
	r.g.Answer((<-r.asked).ID, true)
	if said, end := outcome(c); said != "" || end != "reset" {
		t.Errorf("%s after %q", end, said)
	}
	if d := r.world.dialled(); len(d) != 1 {
		t.Errorf("dialled %v", d)
	}
	if e := r.waitEvents("flow", 2); e[0].Verdict != "allow" || !strings.Contains(e[0].Reason, "said yes") || e[1].Verdict != "deny" {
		t.Errorf("%+v", e)
	}
}

// TestAskSpecial: nobody is asked about an address that a yes would not open.
func TestAskSpecial(t *testing.T) {
	r := newRig(t, rules(t, "default=ask", "ask 10.0.0.0/8"))
	for _, host := range []string{"169.254.169.254", "192.168.1.1", "127.0.0.53"} {
		c := r.connectTo(mustPort(host + ":80"))
		io.WriteString(c, strings.ReplaceAll(getRequest, "example.com", host))
		if said, end := outcome(c); host != "127.0.0.53" && !strings.HasPrefix(said, "HTTP/1.1 403 ") {
			t.Errorf("%s: %s after %q", host, end, said)
		}
	}
	if p := r.datagram([]byte("x"), mustPort("169.254.169.254:123")); !p.refused {
		t.Errorf("%+v", p)
	}
	if len(r.asked) != 0 {
		t.Errorf("asked: %+v", <-r.asked)
	}
}

// TestAskFlood: a flood gets denials, not prompts.
func TestAskFlood(t *testing.T) {
	r := newRig(t, rules(t, "default=ask"), func(_ *Config, l *limits) { l.questions = 4; l.held = 6 })
	denials := 0
	for n := range 40 {
		c := r.connect(fmt.Sprintf("host%d.com", n), 80)
		io.WriteString(c, strings.ReplaceAll(getRequest, "example.com", fmt.Sprintf("host%d.com", n)))
		if n < 4 {
			<-r.asked
			continue
		}
		if said, _ := outcome(c); strings.HasPrefix(said, "HTTP/1.1 403 ") {
			denials++
		}
	}
	if denials != 36 || len(r.asked) != 0 || len(r.g.Pending()) != 4 {
		t.Errorf("%d denials, %d prompts more, %d pending", denials, len(r.asked), len(r.g.Pending()))
	}
	// Flows to a destination that is asked about already, up to the limit of those that wait.
	for range 2 {
		c := r.connect("host0.com", 80)
		io.WriteString(c, strings.ReplaceAll(getRequest, "example.com", "host0.com"))
	}
	r.waitPending(3)
	c := r.connect("host0.com", 80)
	io.WriteString(c, strings.ReplaceAll(getRequest, "example.com", "host0.com"))
	if said, _ := outcome(c); !strings.HasPrefix(said, "HTTP/1.1 403 ") || !strings.Contains(said, "too many") {
		t.Errorf("%q", said)
	}
}

// TestAskPace: answering no does not make room for prompts without end.
func TestAskPace(t *testing.T) {
	r := newRig(t, rules(t, "default=ask"), func(_ *Config, l *limits) { l.perMinute = 5 })
	for n := range 20 {
		host := fmt.Sprintf("host%d.com", n)
		c := r.connect(host, 80)
		io.WriteString(c, strings.ReplaceAll(getRequest, "example.com", host))
		if n < 5 {
			r.g.Answer((<-r.asked).ID, false)
		}
		if said, _ := outcome(c); !strings.HasPrefix(said, "HTTP/1.1 403 ") {
			t.Errorf("%d: %q", n, said)
		}
	}
	if len(r.asked) != 0 {
		t.Errorf("%d prompts too many", len(r.asked))
	}
}

// TestAskPerRequest: where the rule looks at requests, each kind is asked about by itself.
func TestAskPerRequest(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com http methods=GET", "ask example.com http methods=POST"))
	r.serve("example.com", 80, script(ok, ok, ok, ok))
	c := r.connect("example.com", 80)
	post := func(path string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: example.com\r\nContent-Length: 0\r\n\r\n"
	}
	b := make([]byte, len(ok))
	for _, step := range []struct {
		send string
		ask  bool
	}{{"GET /x HTTP/1.1\r\nHost: example.com\r\n\r\n", false}, {post("/a"), true}, {post("/a"), false}, {post("/b"), true}} {
		io.WriteString(c, step.send)
		if step.ask {
			q := <-r.asked
			if q.Method != "POST" || !strings.HasPrefix(q.Path, "/") {
				t.Errorf("%+v", q)
			}
			r.g.Answer(q.ID, true)
		}
		if _, err := io.ReadFull(c, b); err != nil || string(b) != ok {
			t.Fatalf("%q: %q, %v", step.send, b, err)
		}
	}
	if len(r.asked) != 0 {
		t.Error("asked too often")
	}
}

// TestAskThenPolicy: a change of the rules answers what waits.
func TestAskThenPolicy(t *testing.T) {
	for _, rule := range []string{"allow example.com", "deny example.com"} {
		r := newRig(t, rules(t, "ask example.com", "ask other.com"))
		r.serve("example.com", 80, script(ok))
		c := r.connect("example.com", 80)
		io.WriteString(c, getRequest)
		<-r.asked
		other := r.connect("other.com", 80)
		io.WriteString(other, strings.ReplaceAll(getRequest, "example.com", "other.com"))
		<-r.asked
		r.g.SetPolicy(rules(t, rule, "ask other.com"))
		want := ok
		if rule[0] == 'd' {
			want = "HTTP/1.1 403 "
		}
		if said, _ := outcome(c); !strings.HasPrefix(said, want) {
			t.Errorf("%q", said)
		}
		if p := r.g.Pending(); len(p) != 1 || p[0].Host != "other.com" {
			t.Errorf("%+v", p)
		}
	}
}

// TestPolicyChangeCloses: a change closes what is no longer allowed, and only that.
func TestPolicyChangeCloses(t *testing.T) {
	all := []string{"allow raw.com", "allow kept.com", "allow web.com http", "allow busy.com http methods=GET", "allow private.com", "allow 10.0.0.1", "ask asked.com"}
	hello := func(c *net.TCPConn) { io.WriteString(c, "hi"); io.Copy(c, c) }
	const begun = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhi"
	open := func(t *testing.T, goOn chan struct{}) (*rig, map[string]*net.TCPConn) {
		r := newRig(t, rules(t, all...), silent)
		r.world.name("private.com", addrs("10.0.0.1"))
		flows := map[string]*net.TCPConn{}
		for _, name := range []string{"raw.com", "kept.com", "private.com", "asked.com"} {
			r.serve(name, 80, hello)
			c := r.connect(name, 80)
			if name == "asked.com" {
				r.g.Answer((<-r.asked).ID, true)
			}
			if _, err := io.ReadFull(c, make([]byte, 2)); err != nil {
				t.Fatal(err)
			}
			flows[name] = c
		}
		r.serve("web.com", 80, script(ok, ok))
		c := r.connect("web.com", 80) // between two requests
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: web.com\r\n\r\n")
		io.ReadFull(c, make([]byte, len(ok)))
		flows["web.com"] = c
		r.serve("busy.com", 80, func(c *net.TCPConn) {
			http.ReadRequest(bufio.NewReader(c))
			io.WriteString(c, begun)
			<-goOn
			io.WriteString(c, "ho")
		})
		c = r.connect("busy.com", 80) // in the middle of a response
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: busy.com\r\n\r\n")
		io.ReadFull(c, make([]byte, len(begun)))
		flows["busy.com"] = c
		return r, flows
	}
	for n, test := range []struct {
		rules  []string
		closed []string
	}{
		{append([]string{"deny raw.com"}, all...), []string{"raw.com"}},
		{append([]string{"deny web.com"}, all...), []string{"web.com"}},
		{append([]string{"deny busy.com http methods=GET"}, all...), []string{"busy.com"}},
		{append([]string{"deny 10.0.0.0/8"}, all...), []string{"private.com"}},
		{append([]string{"deny asked.com"}, all...), []string{"asked.com"}},
		{all[1:], []string{"raw.com"}},
		{nil, []string{"raw.com", "kept.com", "private.com", "asked.com", "web.com", "busy.com"}},
		{all, nil},
	} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			goOn := make(chan struct{})
			r, flows := open(t, goOn)
			r.g.SetPolicy(rules(t, test.rules...))
			for _, name := range test.closed {
				if _, end := outcome(flows[name]); end != "reset" {
					t.Errorf("%s: %s", name, end)
				}
				delete(flows, name)
			}
			close(goOn)
			for name, c := range flows { // they work on
				send, want := "\x00", "\x00"
				switch name {
				case "web.com":
					send, want = "GET / HTTP/1.1\r\nHost: web.com\r\n\r\n", ok
				case "busy.com":
					send, want = "", "ho"
				}
				io.WriteString(c, send)
				b := make([]byte, len(want))
				if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
					t.Errorf("%s: %q, %v", name, b, err)
				}
			}
			for _, e := range r.waitEvents("flow", len(test.closed)) {
				if !strings.Contains(e.Close, "rules have changed") {
					t.Errorf("%+v", e)
				}
			}
		})
	}
}

// TestExpiry: a rule that expires closes its flows by itself.
func TestExpiry(t *testing.T) {
	r := newRig(t, expiring(t, "example.com", time.Now().Add(time.Hour)))
	r.serve("example.com", 80, func(c *net.TCPConn) { io.WriteString(c, "hi"); io.Copy(c, c) })
	c := r.connect("example.com", 80)
	io.ReadFull(c, make([]byte, 2))
	r.g.review(time.Now()) // not yet
	io.WriteString(c, "\x00")
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	r.g.review(time.Now().Add(2 * time.Hour))
	if said, end := outcome(c); said != "" || end != "reset" {
		t.Errorf("%s after %q", end, said)
	}
}

// TestAskHangUp: a program that gives up frees its place.
func TestAskHangUp(t *testing.T) {
	r := newRig(t, rules(t, "ask example.com"))
	r.serve("example.com", 80, script(ok))
	c := r.connect("example.com", 80)
	io.WriteString(c, getRequest)
	q := r.waitPending(1)
	other := r.connect("example.com", 80)
	io.WriteString(other, getRequest)
	ended := r.connect("example.com", 80)
	io.WriteString(ended, getRequest)
	r.waitPending(3)
	ended.Close()
	r.waitPending(2)
	hangUp(c)
	r.waitPending(1)
	r.g.Answer(q.ID, true)
	if said, _ := outcome(other); said != ok {
		t.Errorf("%q", said)
	}
	if e := r.waitEvents("flow", 1)[0]; !strings.Contains(e.Close, "did not wait") {
		t.Errorf("%+v", e)
	}
}

// TestAskHangUpTLS: who ends his side in the middle of a handshake has hung up. The question
// stays, for when he tries again.
func TestAskHangUpTLS(t *testing.T) {
	r := newRig(t, rules(t, "ask example.com"))
	r.serve("example.com", 443, func(c *net.TCPConn) { io.ReadFull(c, make([]byte, 10)); io.WriteString(c, "hi") })
	c := r.connect("example.com", 443)
	c.Write(clientHello(t, "example.com"))
	q := r.waitPending(1)
	c.CloseWrite()
	r.waitPending(0)
	if e := r.waitEvents("flow", 1)[0]; !strings.Contains(e.Close, "did not wait") {
		t.Errorf("%+v", e)
	}
	r.g.Answer(q.ID, true)
	again := r.connect("example.com", 443)
	again.Write(clientHello(t, "example.com"))
	b := make([]byte, 2)
	if _, err := io.ReadFull(again, b); err != nil || string(b) != "hi" {
		t.Errorf("%q, %v", b, err)
	}
}

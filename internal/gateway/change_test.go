package gateway

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
)

// TestForeignNameIsReviewed: a name that was given for a bare address ends the connection when
// the rules no longer allow it, though they still allow the address.
func TestForeignNameIsReviewed(t *testing.T) {
	const address, name = "allow 93.184.215.0/24", "allow example.com"
	get := "GET / HTTP/1.1\r\nHost: example.com:1000\r\n\r\n"
	post := "POST / HTTP/1.1\r\nHost: example.com:1000\r\nContent-Length: 100\r\n\r\nbody"
	alert := "\x15\x03\x03\x00\x02\x02\x28"
	for what, test := range map[string]struct{ send, answer string }{
		"TLS":                               {string(clientHello(t, "example.com")), alert},
		"HTTP without an answer yet":        {get, ""},
		"HTTP between requests":             {get, ok},
		"HTTP answered before its body":     {post, ok},
		"HTTP with a body to be waited for": {post, ""},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, rules(t, address, name))
			to := netip.AddrPortFrom(public, 1000)
			reached := make(chan struct{})
			r.serveAt(to, func(c *net.TCPConn) {
				io.ReadFull(c, make([]byte, len(test.send)))
				close(reached)
				io.WriteString(c, test.answer)
				io.Copy(io.Discard, c)
			})
			c := r.connectTo(to)
			io.WriteString(c, test.send)
			<-reached
			if _, err := io.ReadFull(c, make([]byte, len(test.answer))); err != nil {
				t.Fatal(err)
			}
			over := func() bool {
				r.g.mu.Lock()
				defer r.g.mu.Unlock()
				for f := range r.g.flows {
					if !f.isOver() {
						return false
					}
				}
				return true
			}
			r.g.SetPolicy(rules(t, address, name, "allow other.com"))
			if over() {
				t.Error("it ended though nothing has changed for it")
			}
			r.g.SetPolicy(rules(t, address))
			if !over() {
				t.Error("it goes on")
			}
			if said, end := outcome(c); said != "" || end != "reset" {
				t.Errorf("ended with %s after %q", end, said)
			}
			if e := r.waitEvents("flow", 1); !strings.Contains(e[0].Close, "rules have changed") {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestForeignNameSameRules: the name and the address are decided by the same rules, also if
// those change while the user is asked about the address.
func TestForeignNameSameRules(t *testing.T) {
	const address, name = "ask 93.184.215.0/24", "allow example.com"
	for _, keep := range []bool{true, false} {
		r := newRig(t, rules(t, address, name))
		to := netip.AddrPortFrom(public, 1000)
		var server recorder
		r.serveAt(to, server.handle)
		c := r.connectTo(to)
		hello := clientHello(t, "example.com")
		c.Write(hello)
		q := <-r.asked
		if keep {
			r.g.SetPolicy(rules(t, address, name, "allow other.com"))
		} else {
			r.g.SetPolicy(rules(t, address))
		}
		if err := r.g.Answer(q.ID, true); err != nil {
			t.Fatal(err)
		}
		c.CloseWrite()
		said, _ := outcome(c)
		if through := server.bytes() == string(hello); through != keep {
			t.Errorf("kept %v: the server got %d bytes; the program got %q", keep, len(server.bytes()), said)
		}
	}
}

package gateway

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
)

// TestAskHangUp: a program that gives up frees its place; one that has only ended its side waits on.
func TestAskHangUp(t *testing.T) {
	r := newRig(t, rules(t, "ask example.com"))
	r.serve("example.com", 80, script(ok))
	c := r.connect("example.com", 80)
	io.WriteString(c, getRequest)
	q := r.waitPending(1)
	half := r.connect("example.com", 80)
	io.WriteString(half, getRequest)
	half.CloseWrite()
	r.waitPending(2)
	hangUp(c)
	r.waitPending(1)
	r.g.Answer(q.ID, true)
	if said, _ := outcome(half); said != ok {
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

// TestAskClosed: where it can be seen that a program has closed the connection, and has not only
// ended its side, it does not wait for an answer, whatever it has said.
func TestAskClosed(t *testing.T) {
	for name, said := range map[string]string{"http": getRequest, "raw": "\x00raw"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var left atomic.Pointer[netip.AddrPort] // who has closed it
			asked := make(chan netip.AddrPort, 100)
			r := newRig(t, rules(t, "ask example.com"), func(c *Config, _ *limits) {
				c.Closed = func(from, to netip.AddrPort) bool {
					select {
					case asked <- from:
					default:
					}
					l := left.Load()
					return l != nil && *l == from
				}
			})
			r.serve("example.com", 80, func(c *net.TCPConn) {
				io.ReadFull(c, make([]byte, len(said)))
				io.WriteString(c, "hi")
			})
			c := r.connect("example.com", 80)
			io.WriteString(c, said)
			c.CloseWrite()
			q := r.waitPending(1)
			from := <-asked // it waits on, and is asked about again
			if again := <-asked; again != from {
				t.Errorf("asked about %s, and then about %s", from, again)
			}
			half := r.connect("example.com", 80)
			io.WriteString(half, said)
			half.CloseWrite()
			r.waitPending(2)
			left.Store(&from)
			r.waitPending(1)
			if e := r.waitEvents("flow", 1)[0]; !strings.Contains(e.Close, "did not wait") {
				t.Errorf("%+v", e)
			}
			r.g.Answer(q.ID, true)
			if said, _ := outcome(half); said != "hi" {
				t.Errorf("%q", said)
			}
		})
	}
}

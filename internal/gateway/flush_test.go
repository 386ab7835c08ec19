package gateway

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/cofferhq/coffer/internal/policy"
)

// spy is a socket that keeps what is sent.
type spy struct {
	net.Conn
	wrote chan struct{} // a token for each datagram
	mu    sync.Mutex
	sent  string
}

func newSpy() *spy {
	a, _ := net.Pipe()
	return &spy{Conn: a, wrote: make(chan struct{}, 16)}
}

func (s *spy) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent += string(b)
	s.wrote <- struct{}{}
	return len(b), nil
}

func (s *spy) bytes() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// TestUDPDeniedWhileDialling: what has waited for a socket does not leave by rules that
// have changed meanwhile.
func TestUDPDeniedWhileDialling(t *testing.T) {
	for _, deny := range []bool{false, true} {
		up := newSpy()
		var r *rig
		r = newRig(t, rules(t, "allow example.com udp"), func(c *Config, _ *limits) {
			c.Dial = func(context.Context, string, netip.AddrPort) (net.Conn, error) {
				if deny {
					r.g.SetPolicy(rules(t))
				}
				return up, nil
			}
		})
		r.world.name("example.com", []netip.Addr{public})
		v4, _ := r.g.table.Addresses("example.com")
		r.link.datagrams <- packet{b: []byte("hello"), from: inside1, to: netip.AddrPortFrom(v4, 123)}
		if deny {
			if p := r.answer(); !p.refused {
				t.Errorf("%+v", p)
			}
		} else {
			<-up.wrote
		}
		r.g.Close()
		if e := r.waitEvents("flow", 1); len(e) != 1 || (e[0].Verdict == "deny") != deny || (e[0].Sent == 5) == deny {
			t.Errorf("denied %v: %+v", deny, e)
		}
		if sent := up.bytes(); (sent == "") != deny {
			t.Errorf("denied %v: sent %q", deny, sent)
		}
	}
}

// TestUDPGrantIsKept: a yes holds although the rules change while the session is dialled.
func TestUDPGrantIsKept(t *testing.T) {
	var r *rig
	var once sync.Once
	r = newRig(t, rules(t, "ask example.com udp"), func(c *Config, _ *limits) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
			once.Do(func() { r.g.SetPolicy(rules(t, "ask example.com udp", "allow other.com")) })
			return dial(ctx, network, to)
		}
	})
	r.serveUDP("example.com", 123, shout)
	v4, _ := r.g.table.Addresses("example.com")
	r.link.datagrams <- packet{b: []byte("x"), from: inside1, to: netip.AddrPortFrom(v4, 123)}
	r.g.Answer((<-r.asked).ID, true)
	if p := r.answer(); string(p.b) != "X" {
		t.Errorf("%+v", p)
	}
	if len(r.asked) != 0 || len(r.world.dialled()) != 1 {
		t.Errorf("%d more questions, dialled %v", len(r.asked), r.world.dialled())
	}
}

// TestUDPBudgetAtFlush: what is over the budget before the socket is there is in the log, and
// so is what was sent.
func TestUDPBudgetAtFlush(t *testing.T) {
	for first, sent := range map[string]int64{"12345678": 8, "12345678901": 0} {
		gate := make(chan struct{})
		up := newSpy()
		r := newRig(t, rules(t, "allow example.com udp up=10B"), func(c *Config, _ *limits) {
			c.Dial = func(context.Context, string, netip.AddrPort) (net.Conn, error) {
				<-gate
				return up, nil
			}
		})
		r.world.name("example.com", []netip.Addr{public})
		v4, _ := r.g.table.Addresses("example.com")
		to := netip.AddrPortFrom(v4, 123)
		for _, b := range []string{first, "12345678"} {
			r.link.datagrams <- packet{b: []byte(b), from: inside1, to: to}
		}
		r.datagram([]byte("x"), mustPort("224.0.0.251:5353")) // refused; those before it have been taken
		close(gate)
		if p := r.answer(); !p.refused || p.from != to {
			t.Errorf("%+v", p)
		}
		if e := r.waitEvents("limit", 1); e[0].Host != "example.com" || e[0].Detail != "upload" || e[0].Rule == "" {
			t.Errorf("%+v", e)
		}
		flows := r.waitEvents("flow", 2)
		e := flows[0]
		if e.Host != "example.com" { // the refused one
			e = flows[1]
		}
		if e.Host != "example.com" || e.Verdict != policy.Allow.String() || e.Sent != sent || !strings.Contains(e.Close, "upload limit") {
			t.Errorf("%+v", e)
		}
		if got := up.bytes(); int64(len(got)) != sent {
			t.Errorf("sent %q", got)
		}
	}
}

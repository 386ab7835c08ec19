package gateway

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cofferhq/coffer/internal/link"
	"golang.org/x/net/dns/dnsmessage"
)

// TestRecordsAreSeen: records that are looked up outside are logged, counted against the
// budget of the rule, and bounded.
func TestRecordsAreSeen(t *testing.T) {
	var asked atomic.Int64
	start := func(lines ...string) *rig {
		asked.Store(0)
		return newRig(t, rules(t, lines...), func(c *Config, _ *limits) {
			c.Lookup = func(context.Context, string, dnsmessage.Type) ([]dnsmessage.ResourceBody, error) {
				asked.Add(1)
				return []dnsmessage.ResourceBody{&dnsmessage.TXTResource{TXT: []string{"text"}}}, nil
			}
		})
	}
	get := func(r *rig, name string) (dnsmessage.RCode, int) {
		t.Helper()
		q, err := (&dnsmessage.Message{
			Header:    dnsmessage.Header{RecursionDesired: true},
			Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name + "."), Type: dnsmessage.TypeTXT, Class: dnsmessage.ClassINET}},
		}).Pack()
		if err != nil {
			t.Fatal(err)
		}
		var m dnsmessage.Message
		if err := m.Unpack(r.datagram(q, netip.AddrPortFrom(link.Resolver4, 53)).b); err != nil {
			t.Fatal(err)
		}
		return m.RCode, len(m.Answers)
	}

	t.Run("log", func(t *testing.T) {
		r := start("allow *.example.com:443 tls")
		if code, n := get(r, "secret.example.com"); code != dnsmessage.RCodeSuccess || n != 1 {
			t.Fatal(code, n)
		}
		e := r.waitEvents("dns", 1)[0]
		if e.Host != "secret.example.com" || e.Verdict != "allow" || e.Sent != 18 || !strings.Contains(e.Detail, "TXT") {
			t.Errorf("%+v", e)
		}
	})
	t.Run("bound", func(t *testing.T) {
		r := start("allow *.example.com:443 tls")
		for n := range lookupsAtOnce + 20 {
			get(r, fmt.Sprintf("n%d.example.com", n))
		}
		if n := asked.Load(); n < lookupsAtOnce || n > lookupsAtOnce+10 { // some time has passed
			t.Errorf("%d look-ups were made", n)
		}
		if e := r.waitEvents("limit", 1)[0]; e.Verdict != "deny" || e.Host == "" {
			t.Errorf("%+v", e)
		}
	})
	t.Run("budget", func(t *testing.T) {
		r := start("allow *.example.com:443 tls up=40B")
		for n := range 10 {
			get(r, fmt.Sprintf("n%d.example.com", n)) // 14 bytes each
		}
		if n := asked.Load(); n != 2 {
			t.Errorf("%d look-ups were made", n)
		}
	})
	t.Run("question", func(t *testing.T) {
		r := start("default=ask")
		if code, n := get(r, "secret.example.com"); code != dnsmessage.RCodeSuccess || n != 0 || asked.Load() != 0 {
			t.Errorf("%v, %d answers, %d look-ups before the user was asked", code, n, asked.Load())
		}
	})
}

// TestForeignSource: what comes from another address than the machine's own goes nowhere.
func TestForeignSource(t *testing.T) {
	r := newRig(t, rules(t, "allow 93.184.215.14 udp", "allow 93.184.215.14"))
	r.world.name("x", []netip.Addr{public})
	r.serveUDP("x", 7, shout)
	to := netip.AddrPortFrom(public, 7)
	for _, from := range []string{"93.184.215.15:7", "127.0.0.1:7", "198.18.0.1:7", "[2a0f::1]:7"} {
		r.link.datagrams <- packet{b: []byte("x"), from: mustPort(from), to: to}
		if p := r.answer(); !p.refused || p.to != mustPort(from) {
			t.Errorf("%s: %+v", from, p)
		}
	}
	if p := r.datagram([]byte("x"), to); string(p.b) != "X" {
		t.Errorf("from its own: %+v", p)
	}
	if d := r.world.dialled(); len(d) != 1 {
		t.Errorf("dialled %v", d)
	}
	if !own(mustPort("[::ffff:198.18.0.2]:1")) || !own(netip.AddrPortFrom(link.Own6, 1)) || own(netip.AddrPort{}) {
		t.Error("own")
	}
}

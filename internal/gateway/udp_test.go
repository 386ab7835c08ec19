package gateway

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

func query(t testing.TB, name string, kind dnsmessage.Type) []byte {
	t.Helper()
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: 7, RecursionDesired: true})
	b.StartQuestions()
	if err := b.Question(dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}); err != nil {
		t.Fatal(err)
	}
	out, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var inside1 = mustPort("198.18.0.2:40001")

// datagram is a program that sends a datagram and gets one answer.
func (r *rig) datagram(b []byte, to netip.AddrPort) packet {
	r.t.Helper()
	r.link.datagrams <- packet{b: b, from: inside1, to: to}
	return r.answer()
}

func (r *rig) answer() packet {
	r.t.Helper()
	select {
	case p := <-r.link.replies:
		return p
	case <-time.After(time.Minute):
		r.t.Fatal("no answer")
		return packet{}
	}
}

func TestDNS(t *testing.T) {
	r := newRig(t, rules(t, "allow *.example.com", "ask asked.com"), func(c *Config, _ *limits) {
		c.Lookup = func(_ context.Context, name string, kind dnsmessage.Type) ([]dnsmessage.ResourceBody, error) {
			return []dnsmessage.ResourceBody{&dnsmessage.TXTResource{TXT: []string{"text of " + name}}}, nil
		}
	})
	ask := map[string]func([]byte) []byte{
		"UDP": func(q []byte) []byte {
			to := mustPort("198.18.0.1:53")
			p := r.datagram(q, to)
			if p.from != to || p.to != inside1 {
				t.Errorf("answer from %v to %v", p.from, p.to)
			}
			return p.b
		},
		"UDP to another server": func(q []byte) []byte { return r.datagram(q, mustPort("8.8.8.8:53")).b },
		"TCP": func(q []byte) []byte {
			c := r.connectTo(mustPort("[fd63:6f66:6665:7200::1]:53"))
			var b []byte
			for range 2 { // on the same connection
				c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...))
				var size [2]byte
				io.ReadFull(c, size[:])
				b = make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(c, b); err != nil {
					t.Fatal(err)
				}
			}
			return b
		},
	}
	for how, ask := range ask {
		var m dnsmessage.Message
		if err := m.Unpack(ask(query(t, "a.example.com.", dnsmessage.TypeA))); err != nil || len(m.Answers) != 1 {
			t.Fatalf("%s: %+v, %v", how, m, err)
		}
		a := netip.AddrFrom4(m.Answers[0].Body.(*dnsmessage.AResource).A)
		if name, ok := r.g.table.Name(a); !ok || name != "a.example.com" {
			t.Errorf("%s: %v is %q", how, a, name)
		}
		if m.Unpack(ask(query(t, "asked.com.", dnsmessage.TypeAAAA))); len(m.Answers) != 1 {
			t.Errorf("%s: to be asked about: %+v", how, m)
		}
		if m.Unpack(ask(query(t, "a.example.com.", dnsmessage.TypeTXT))); len(m.Answers) != 1 ||
			m.Answers[0].Body.(*dnsmessage.TXTResource).TXT[0] != "text of a.example.com" {
			t.Errorf("%s: TXT: %+v", how, m)
		}
		if m.Unpack(ask(query(t, "secret.evil.com.", dnsmessage.TypeA))); len(m.Answers) != 0 || m.RCode == dnsmessage.RCodeSuccess {
			t.Errorf("%s: refused: %+v", how, m)
		}
	}
	if looked := r.world.lookedUp(); len(looked) > 0 {
		t.Errorf("names were looked up outside: %v", looked)
	}
	refused := 0
	for _, e := range r.waitEvents("dns", 3) {
		if e.Host == "secret.evil.com" && e.Verdict == "deny" {
			refused++
		}
	}
	if refused != 3 && refused != 4 {
		t.Errorf("%d refusals are in the log", refused)
	}
}

// TestDNSDenialsAreBounded: a thousand refused names do not push everything else out.
func TestDNSDenialsAreBounded(t *testing.T) {
	r := newRig(t, rules(t))
	for n := range 1000 {
		r.datagram(query(t, fmt.Sprintf("x%d.evil.com.", n), dnsmessage.TypeA), mustPort("198.18.0.1:53"))
	}
	if d := r.g.Denials(); len(d) > newNames {
		t.Errorf("%d denials", len(d))
	}
}

// TestRefusedNameIsTold: the user learns of a refused name and how to allow it, once.
func TestRefusedNameIsTold(t *testing.T) {
	r := newRig(t, rules(t, "deny never.com"))
	for _, name := range []string{"Example.COM.", "example.com.", "never.com.", "bad name.com."} {
		for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
			r.datagram(query(t, name, kind), mustPort("198.18.0.1:53"))
		}
	}
	d := r.g.Denials()
	if len(d) != 2 || d[0].Host != "example.com" || d[0].Port != 0 || d[0].Count != 4 || d[0].Allow != "coffer policy allow example.com" ||
		d[1].Host != "never.com" || d[1].Allow != "" {
		t.Errorf("%+v", d)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.told) != 2 {
		t.Errorf("told %+v", r.told)
	}
}

// serveUDP makes something answer datagrams in the world.
func (r *rig) serveUDP(name string, port uint16, handle func(net.PacketConn)) {
	r.t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	r.world.mu.Lock()
	if r.world.names[name] == nil {
		r.world.names[name] = []netip.Addr{public}
	}
	r.world.servers[netip.AddrPortFrom(r.world.names[name][0], port)] = c.LocalAddr().String()
	r.world.mu.Unlock()
	go handle(c)
}

func shout(c net.PacketConn) {
	b := make([]byte, 1<<16)
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		c.WriteTo([]byte(strings.ToUpper(string(b[:n]))), from)
	}
}

func TestUDP(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com udp", "allow tcponly.com", "allow private.com udp", "allow *.many.com udp"))
	r.serveUDP("example.com", 123, shout)
	r.world.name("private.com", addrs("10.0.0.1"))
	to := func(name string, port uint16) netip.AddrPort {
		_, v6 := r.g.table.Addresses(name)
		return netip.AddrPortFrom(v6, port)
	}
	for range 3 {
		p := r.datagram([]byte("hello"), to("example.com", 123))
		if string(p.b) != "HELLO" || p.from != to("example.com", 123) || p.to != inside1 {
			t.Errorf("%+v", p)
		}
	}
	if d := r.world.dialled(); len(d) != 1 {
		t.Errorf("dialled %v", d)
	}
	for what, at := range map[string]netip.AddrPort{
		"QUIC": to("example.com", 443), "no udp rule": to("tcponly.com", 123), "denied": to("denied.com", 123),
		"bare": mustPort("93.184.215.14:123"), "rebound": to("private.com", 123), "unknown": mustPort("198.19.7.7:123"),
		"multicast": mustPort("224.0.0.251:5353"), "host": mustPort("198.18.0.3:123"),
	} {
		if p := r.datagram([]byte("hello"), at); !p.refused || p.from != at || p.to != inside1 {
			t.Errorf("%s: %+v", what, p)
		}
	}
	if d := r.world.dialled(); len(d) != 1 {
		t.Errorf("dialled %v", d)
	}
	// The rules change: the session ends.
	r.g.SetPolicy(rules(t))
	if e := r.waitEvents("flow", 9); true {
		found := false
		for _, e := range e {
			found = found || e.Protocol == "udp" && e.Verdict == "allow" && e.Sent == 15 && e.Received == 15 && e.Addr == public &&
				strings.Contains(e.Close, "rules have changed")
		}
		if !found {
			t.Errorf("%+v", e)
		}
	}
	if p := r.datagram([]byte("hello"), to("example.com", 123)); !p.refused {
		t.Errorf("%+v", p)
	}
}

// TestUDPBounds: sessions are bounded, and idle ones end.
func TestUDPBounds(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com udp"), func(_ *Config, l *limits) { l.sessions = 4; l.udpIdle = time.Hour })
	r.serveUDP("example.com", 123, shout)
	v4, _ := r.g.table.Addresses("example.com")
	send := func(n int) packet {
		r.link.datagrams <- packet{b: []byte("x"), from: netip.AddrPortFrom(inside1.Addr(), uint16(n)), to: netip.AddrPortFrom(v4, 123)}
		return r.answer()
	}
	for n := range 4 {
		if p := send(n); string(p.b) != "X" {
			t.Fatalf("%+v", p)
		}
	}
	if p := send(4); !p.refused {
		t.Errorf("%+v", p)
	}
	r.g.sessions.sweep(time.Now().Add(2 * time.Hour))
	for _, e := range r.waitEvents("flow", 5)[1:] {
		if e.Close != "idle" {
			t.Errorf("%+v", e)
		}
	}
	for len(r.g.sessions.list()) > 0 {
		time.Sleep(time.Millisecond)
	}
	if p := send(4); string(p.b) != "X" {
		t.Errorf("%+v", p)
	}
}

// TestUDPRefusedByServer: "connection refused" outside is so inside.
func TestUDPRefusedByServer(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com udp"), func(c *Config, _ *limits) {
		c.Dial = func(context.Context, string, netip.AddrPort) (net.Conn, error) {
			a, _ := net.Pipe()
			return refusing{a}, nil
		}
	})
	r.world.name("example.com", []netip.Addr{public})
	v4, _ := r.g.table.Addresses("example.com")
	if p := r.datagram([]byte("x"), netip.AddrPortFrom(v4, 9)); !p.refused {
		t.Errorf("%+v", p)
	}
}

type refusing struct{ net.Conn }

func (refusing) Write(b []byte) (int, error) { return len(b), nil }
func (refusing) Read([]byte) (int, error) {
	return 0, &net.OpError{Op: "read", Err: syscall.ECONNREFUSED}
}

func TestUDPAsk(t *testing.T) {
	for _, allow := range []bool{true, false} {
		r := newRig(t, rules(t, "ask example.com udp"))
		r.serveUDP("example.com", 123, shout)
		v4, _ := r.g.table.Addresses("example.com")
		to := netip.AddrPortFrom(v4, 123)
		for range 50 { // more than are kept
			r.link.datagrams <- packet{b: []byte("x"), from: inside1, to: to}
		}
		q := <-r.asked
		if q.Protocol.String() != "udp" || len(r.world.dialled()) != 0 {
			t.Errorf("%+v", q)
		}
		r.g.Answer(q.ID, allow)
		if p := r.answer(); p.refused == allow || allow && string(p.b) != "X" {
			t.Errorf("%v: %+v", allow, p)
		}
	}
}

func TestUDPBudget(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com udp up=10B"))
	r.serveUDP("example.com", 123, shout)
	v4, _ := r.g.table.Addresses("example.com")
	to := netip.AddrPortFrom(v4, 123)
	if p := r.datagram([]byte("12345678"), to); string(p.b) != "12345678" {
		t.Errorf("%+v", p)
	}
	r.link.datagrams <- packet{b: []byte("12345678"), from: inside1, to: to}
	r.waitEvents("limit", 1)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		r.link.datagrams <- packet{b: []byte("1"), from: inside1, to: to}
		select {
		case p := <-r.link.replies:
			if p.refused {
				return
			}
		case <-time.After(100 * time.Millisecond):
		}
		// It has met the old flow on its way out.
	}
	t.Error("it is not refused")
}

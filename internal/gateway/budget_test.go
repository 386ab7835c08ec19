package gateway

import (
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/policy"
)

func TestBudget(t *testing.T) {
	const limit = 100 << 10
	up, down := "allow example.com tcp up=100kB", "allow example.com tcp down=100kB"
	t.Run("upload", func(t *testing.T) {
		r := newRig(t, rules(t, up))
		server := recorder{ended: make(chan struct{}, 8)}
		r.serve("example.com", 1000, server.handle)
		c := r.connect("example.com", 1000)
		c.Write(make([]byte, limit/2))
		c.CloseWrite()
		<-server.ended
		c = r.connect("example.com", 1000)
		c.Write(make([]byte, limit))
		if _, end := outcome(c); end != "reset" {
			t.Errorf("ended with %s", end)
		}
		<-server.ended
		if n := len(server.bytes()); n > limit || n < limit/2 {
			t.Errorf("the server got %d bytes", n)
		}
		e := r.waitEvents("limit", 1)[0]
		if e.Host != "example.com" || e.Port != 1000 || e.Rule != up || e.Detail != "upload" {
			t.Errorf("%+v", e)
		}
		if u := r.g.Budgets(); u[(&policy.Budget{Rule: up}).Key("example.com")].Sent != limit {
			t.Errorf("%+v", u)
		}
		// The next one is refused at once.
		c = r.connect("example.com", 1000)
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: example.com:1000\r\n\r\n")
		if said, _ := outcome(c); !strings.HasPrefix(said, "HTTP/1.1 403 ") || !strings.Contains(said, `"limit"`) {
			t.Errorf("%q", said)
		}
		// Another destination is not.
	})
	t.Run("download", func(t *testing.T) {
		r := newRig(t, rules(t, down))
		r.serve("example.com", 1000, func(c *net.TCPConn) { c.Write(make([]byte, 3*limit)); io.Copy(io.Discard, c) })
		said, end := outcome(r.connect("example.com", 1000))
		if len(said) > limit || end != "reset" {
			t.Errorf("%d bytes, %s", len(said), end)
		}
		if e := r.waitEvents("limit", 1)[0]; e.Detail != "download" {
			t.Errorf("%+v", e)
		}
	})
	t.Run("restored", func(t *testing.T) {
		key := (&policy.Budget{Rule: up}).Key("example.com")
		used := map[string]Used{key: {Sent: limit - 10, Received: 7}}
		r := newRig(t, rules(t, up), func(c *Config, _ *limits) { c.Budgets = used })
		server := recorder{ended: make(chan struct{}, 1)}
		r.serve("example.com", 1000, server.handle)
		c := r.connect("example.com", 1000)
		io.WriteString(c, "\x00"+strings.Repeat("x", 50))
		outcome(c)
		<-server.ended
		if n := len(server.bytes()); n > 10 {
			t.Errorf("the server got %d bytes", n)
		}
		if u := r.g.Budgets(); !maps.Equal(u, map[string]Used{key: {limit, 7}}) {
			t.Errorf("%+v", u)
		}
	})
	t.Run("HTTP", func(t *testing.T) {
		r := newRig(t, rules(t, "allow example.com http up=1kB"))
		r.serve("example.com", 80, script(ok, ok))
		c := r.connect("example.com", 80)
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5000\r\n\r\n"+strings.Repeat("x", 5000))
		if said, _ := outcome(c); !strings.HasPrefix(said, "HTTP/1.1 403 ") || !strings.Contains(said, "upload limit") {
			t.Errorf("in the middle of a body: %q", said)
		}
		if e := r.waitEvents("limit", 1)[0]; e.Detail != "upload" {
			t.Errorf("%+v", e)
		}
		if e := r.waitEvents("flow", 1)[0]; e.Sent != 1024 || e.Close != "the upload limit is used up" {
			t.Errorf("%+v", e)
		}
		c = r.connect("example.com", 80)
		io.WriteString(c, getRequest)
		if said, _ := outcome(c); !strings.HasPrefix(said, "HTTP/1.1 403 ") || !strings.Contains(said, "upload limit") {
			t.Errorf("%q", said)
		}
	})
	t.Run("per destination", func(t *testing.T) {
		r := newRig(t, rules(t, "allow *.example.com tcp up=1kB"))
		for n := range 3 {
			host := fmt.Sprintf("h%d.example.com", n)
			r.serve(host, uint16(1000+n), echo)
			c := r.connect(host, uint16(1000+n))
			c.Write(make([]byte, 900))
			c.CloseWrite()
			if said, end := outcome(c); len(said) != 900 || end != "eof" {
				t.Errorf("%d: %d bytes, %s", n, len(said), end)
			}
		}
	})
}

// TestNamesAreCharged: names that a program makes up below a domain count as sent before they are
// looked up, however often it tries.
func TestNamesAreCharged(t *testing.T) {
	r := newRig(t, rules(t, "allow *.example.com up=100"))
	for i := range 60 {
		c := r.connect(fmt.Sprintf("%040d.example.com", i/3), 80)
		io.WriteString(c, "GET / HTTP/1.1\r\n\r\n")
		outcome(c)
	}
	if all := len(strings.Join(slices.Compact(r.world.lookedUp()), "")); all == 0 || all > 100 {
		t.Errorf("%d bytes of names were looked up: %q", all, r.world.lookedUp())
	}
}

// TestBudgetsBounded: names that a program makes up do not fill the memory.
func TestBudgetsBounded(t *testing.T) {
	b := newBudgets(nil)
	limit := &policy.Budget{Rule: "r", MaxUpload: 10}
	for n := range 2 * maxCounters {
		b.account(limit, fmt.Sprint("h", n)).takeSent(1)
	}
	if len(b.counters) > maxCounters+1 {
		t.Errorf("%d counters", len(b.counters))
	}
	if a := b.account(limit, "another"); !a.spent() {
		t.Error("those over the bound have a budget each")
	}
	if a := b.account(limit, "h0"); a.spent() || a.takeSent(100) != 9 || !a.spent() {
		t.Error("the first lost its own")
	}
}

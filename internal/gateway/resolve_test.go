package gateway

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer answers every question for an address with one, on loopback.
func nameServer(t *testing.T, ttl *atomic.Uint32, asked *atomic.Int64) string {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		for b := make([]byte, 4096); ; {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil {
				continue
			}
			q := m.Questions[0]
			m = dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}, Questions: m.Questions}
			if q.Type == dnsmessage.TypeA {
				asked.Add(1)
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: ttl.Load()},
					Body:   &dnsmessage.AResource{A: [4]byte{93, 184, 215, byte(asked.Load())}},
				}}
			}
			if b, err := m.Pack(); err == nil {
				c.WriteTo(b, from)
			}
		}
	}()
	return c.LocalAddr().String()
}

func TestAnswersAreKept(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system's resolver is asked")
	}
	var ttl atomic.Uint32
	var asked atomic.Int64
	server := nameServer(t, &ttl, &asked)
	r := newResolver()
	clock := time.Now()
	r.now = func() time.Time { return clock }
	r.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server)
	}
	look := func(host string) string {
		t.Helper()
		a, err := r.resolve(t.Context(), host)
		if err != nil || len(a) != 1 {
			t.Fatal(a, err)
		}
		return a[0].String()
	}
	steps := []struct {
		ttl   uint32
		later time.Duration
		asked int64 // of all steps so far
	}{
		{0, 0, 1}, {0, 0, 2}, // for no time
		{60, 0, 3}, {60, 4 * time.Second, 3}, {60, 2 * time.Second, 4}, // for keepAnswers
		{2, 10 * time.Second, 5}, {2, time.Second, 5}, {2, 1500 * time.Millisecond, 6}, // for as long as it says
	}
	for i, s := range steps {
		ttl.Store(s.ttl)
		clock = clock.Add(s.later)
		if look("a.example.com"); asked.Load() != s.asked {
			t.Fatalf("step %d: asked %d times, want %d", i, asked.Load(), s.asked)
		}
	}
	for n := range mostAnswers + 10 {
		look(fmt.Sprintf("n%d.example.com", n))
	}
	if len(r.kept) > mostAnswers {
		t.Errorf("%d answers are kept", len(r.kept))
	}
}

func FuzzLifetime(f *testing.F) {
	f.Add([]byte{0, 1, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		l := &lifetime{}
		l.seconds.Store(100)
		if l.hear(b); l.seconds.Load() > 100 {
			t.Error("it got longer")
		}
	})
}

package gateway

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/link"
	"golang.org/x/net/dns/dnsmessage"
)

// requestOf is the head of a request with so many bytes of a field.
func requestOf(path string, more int) string {
	return "GET " + path + " HTTP/1.1\r\nHost: example.com:1000\r\nX: " + strings.Repeat("x", more) + "\r\n\r\n"
}

// TestReadAhead: what is read ahead comes from a reserve; without one, small heads still pass.
func TestReadAhead(t *testing.T) {
	for _, test := range []struct {
		what    string
		reserve int64
		send    string
		want    string
	}{
		{"small", 0, requestOf("/", 100), ok},
		{"long", 64 << 10, requestOf("/", 30<<10), ok},
		{"long, nothing left", 8 << 10, requestOf("/", 30<<10), "HTTP/1.1 503 "},
		{"long path", 64 << 10, requestOf("/"+strings.Repeat("p", maxPath), 0), "HTTP/1.1 414 "},
	} {
		r := newRig(t, rules(t, "allow example.com http"), func(_ *Config, l *limits) { l.ahead = test.reserve })
		r.serve("example.com", 1000, func(c *net.TCPConn) { script(ok)(c) })
		c := r.connect("example.com", 1000)
		io.WriteString(c, test.send)
		got := make([]byte, len(test.want))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != test.want {
			t.Errorf("%s: %q, %v", test.what, got, err)
		}
		c.Close()
		r.g.Close()
		if left := r.g.ahead.left.Load(); left != test.reserve {
			t.Errorf("%s: %d bytes of %d are left", test.what, left, test.reserve)
		}
	}
}

// TestOverhearLittle: of a refused flow only so much is read.
func TestOverhearLittle(t *testing.T) {
	for size, path := range map[int]string{100: "/secret", 2 * maxOverheard: ""} {
		r := newRig(t, rules(t))
		c := r.connect("example.com", 1000)
		io.WriteString(c, requestOf("/secret", size))
		c.CloseWrite()
		if said, _ := outcome(c); !strings.HasPrefix(said, "HTTP/1.1 403 ") {
			t.Errorf("%d: %q", size, said)
		}
		if e := r.waitEvents("flow", 1); e[0].Path != path {
			t.Errorf("%d: %+v", size, e)
		}
	}
}

func TestDNSOverTCPIsBounded(t *testing.T) {
	var r *rig
	inWork := make(chan int, 1)
	r = newRig(t, rules(t, "allow example.com"), func(c *Config, _ *limits) {
		c.Lookup = func(context.Context, string, dnsmessage.Type) ([]dnsmessage.ResourceBody, error) {
			inWork <- len(r.g.queries)
			return nil, nil
		}
	})
	q := query(t, "example.com.", dnsmessage.TypeTXT)
	c := r.connectTo(mustPort("198.18.0.1:53"))
	c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...))
	if n := <-inWork; n != 1 {
		t.Errorf("%d queries are in work", n)
	}
	long := append(bytes.Clone(q), make([]byte, maxQuery)...)
	in := append(binary.BigEndian.AppendUint16(nil, uint16(len(long))), long...)
	if b, err := readQuery(bytes.NewReader(in)); err == nil {
		t.Errorf("%d bytes were read", len(b))
	}
	in = append(binary.BigEndian.AppendUint16(nil, maxQuery), long[:maxQuery]...)
	if b, err := readQuery(bytes.NewReader(in)); err != nil || !bytes.Equal(b, long[:maxQuery]) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if b, err := readQuery(bytes.NewReader(in[:100])); err == nil {
		t.Errorf("cut off: %d bytes", len(b))
	}
}

// TestUDPWaitsInLittle: datagrams that wait are bounded in number and in bytes.
func TestUDPWaitsInLittle(t *testing.T) {
	for size, want := range map[int]int{1: maxQueued, 1500: 2, maxQueuedBytes + 1: 0} {
		r := newRig(t, rules(t, "ask example.com udp"))
		r.world.name("example.com", addrs("93.184.215.14"))
		v4, _ := r.g.table.Addresses("example.com")
		for range 2 * maxQueued {
			r.link.datagrams <- packet{b: make([]byte, size), from: inside1, to: netip.AddrPortFrom(v4, 123)}
		}
		r.link.datagrams <- packet{from: inside1, to: mustPort("224.0.0.1:1")} // refused, after all of them
		r.answer()
		s := r.g.sessions.list()[0]
		s.mu.Lock()
		if len(s.waiting) != want {
			t.Errorf("%d datagrams of %d bytes wait, want %d", len(s.waiting), size, want)
		}
		s.mu.Unlock()
		r.g.Answer((<-r.asked).ID, false)
		r.answer()
	}
}

func TestAboutIsBounded(t *testing.T) {
	r := newRig(t, rules(t), func(_ *Config, l *limits) { l.about = 1 })
	at := netip.AddrPortFrom(link.About4, 80)
	get := "GET /policy HTTP/1.1\r\nHost: coffer.internal\r\n\r\n"
	first := r.connectTo(at)
	io.WriteString(first, get)
	if _, err := io.ReadFull(first, make([]byte, 12)); err != nil {
		t.Fatal(err)
	}
	if said, end := outcome(r.connectTo(at)); said != "" || end != "reset" {
		t.Errorf("%s after %q", end, said)
	}
}

// slowFlow is a flow whose program does not complete the connection.
type slowFlow struct {
	fakeFlow
	begun, done chan struct{}
}

func (f *slowFlow) Accept() (link.Conn, error) {
	close(f.begun)
	<-f.done
	return nil, net.ErrClosed
}

// TestSlowAccept: completing one connection does not keep others waiting.
func TestSlowAccept(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com"))
	r.serve("example.com", 1000, echo)
	for _, to := range []string{"93.184.215.14:1000", "198.18.0.1:53", "198.18.0.4:80"} {
		slow := &slowFlow{fakeFlow{from: inside1, to: mustPort(to)}, make(chan struct{}), make(chan struct{})}
		r.link.flows <- slow
		<-slow.begun
		c := r.connect("example.com", 1000)
		c.Write([]byte{0})
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Errorf("while %s is accepted: %v", to, err)
		}
		close(slow.done)
	}
}

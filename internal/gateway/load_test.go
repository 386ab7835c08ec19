package gateway

import (
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// resident returns the memory of this process in bytes, 0 where it cannot be told.
func resident() int {
	b, _ := os.ReadFile("/proc/self/statm")
	if f := strings.Fields(string(b)); len(f) > 1 {
		n, _ := strconv.Atoi(f[1])
		return n * os.Getpagesize()
	}
	return 0
}

// TestManyConnections: two thousand at once are all served, in little memory.
func TestManyConnections(t *testing.T) {
	const count, most = 2000, 150 << 20
	for _, test := range []struct{ what, rule, send, want string }{
		{"raw", "allow example.com", "\x00hello", "\x00hello"},
		{"HTTP", "allow example.com http", "GET / HTTP/1.1\r\nHost: example.com:1000\r\n\r\n", ok},
	} {
		t.Run(test.what, func(t *testing.T) {
			r := newRig(t, rules(t, test.rule))
			handle := echo
			if test.what == "HTTP" {
				handle = func(c *net.TCPConn) { script(ok, ok, ok)(c) }
			}
			r.serve("example.com", 1000, handle)
			runtime.GC()
			before := resident()
			conns := make([]*net.TCPConn, count)
			var all sync.WaitGroup
			for n := range conns {
				conns[n] = r.connect("example.com", 1000)
				_ = conns[n].SetDeadline(time.Now().Add(2 * time.Minute))
				if conns[n] == nil {
					t.Fatal("no connection")
				}
			}
			for range 2 {
				for _, c := range conns {
					all.Go(func() {
						io.WriteString(c, test.send)
						b := make([]byte, len(test.want))
						if _, err := io.ReadFull(c, b); err != nil || string(b) != test.want {
							t.Errorf("%q, %v", b, err)
						}
					})
				}
				all.Wait()
			}
			runtime.GC()
			used := resident()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			t.Logf("%d connections: %d MB resident, %d MB before; heap %d MB, stacks %d MB (programs and server included)",
				count, used>>20, before>>20, m.HeapAlloc>>20, m.StackInuse>>20)
			if used-before > most && !raceDetector {
				t.Errorf("%d MB more", (used-before)>>20)
			}
			for _, c := range conns {
				hangUp(c) // which leaves no port in use for a minute
			}
			r.waitEvents("flow", count)
		})
	}
}

// TestSlowHeads: a program that never ends its head is ended.
func TestSlowHeads(t *testing.T) {
	for _, test := range []struct{ what, send, want string }{
		{"HTTP", "GET / HTTP/1.1\r\nHost: exa", "HTTP/1.1 408 "},
		{"TLS", string(clientHello(t, "example.com")[:50]), "\x15\x03"},
		{"anything", "GE", ""},
	} {
		r := newRig(t, rules(t, "allow example.com tls", "allow example.com http"), func(_ *Config, l *limits) { l.head = 20 * time.Millisecond })
		c := r.connect("example.com", 80)
		io.WriteString(c, test.send)
		if said, _ := outcome(c); !strings.HasPrefix(said, test.want) || len(r.world.dialled()) > 0 {
			t.Errorf("%s: %q", test.what, said)
		}
	}
	r := newRig(t, rules(t, "allow example.com tls"), func(_ *Config, l *limits) { l.first = 20 * time.Millisecond })
	if said, end := outcome(r.connect("example.com", 80)); said != "" || end != "reset" {
		t.Errorf("silent: %s after %q", end, said)
	}
}

// BenchmarkRelay measures bulk through the gateway; BenchmarkDirect is the same without it.
func BenchmarkRelay(b *testing.B) {
	r := newRig(b, rules(b, "allow example.com"))
	r.serve("example.com", 1000, func(c *net.TCPConn) { io.Copy(io.Discard, struct{ io.Reader }{c}) })
	pour(b, r.connect("example.com", 1000))
}

func BenchmarkDirect(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, _ := l.Accept()
		io.Copy(io.Discard, struct{ io.Reader }{c})
		c.Close()
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	pour(b, c.(*net.TCPConn))
}

func pour(b *testing.B, c *net.TCPConn) {
	_ = c.SetDeadline(time.Time{})
	piece := make([]byte, 256<<10)
	c.Write([]byte{0, 1, 2})
	b.SetBytes(int64(len(piece)))
	for b.Loop() {
		if _, err := c.Write(piece); err != nil {
			b.Fatal(err)
		}
	}
	c.CloseWrite()
	io.Copy(io.Discard, c)
	c.Close()
}

// BenchmarkRelayDown is bulk from a server that speaks first.
func BenchmarkRelayDown(b *testing.B) {
	r := newRig(b, rules(b, "allow example.com"))
	piece := make([]byte, 256<<10)
	r.serve("example.com", 1000, func(c *net.TCPConn) {
		for {
			if _, err := c.Write(piece); err != nil {
				return
			}
		}
	})
	c := r.connect("example.com", 1000)
	_ = c.SetDeadline(time.Time{})
	got := make([]byte, len(piece))
	b.SetBytes(int64(len(piece)))
	for b.Loop() {
		if _, err := io.ReadFull(c, got); err != nil {
			b.Fatal(err)
		}
	}
	hangUp(c)
}

// BenchmarkConnectDirect is BenchmarkConnect without a gateway.
func BenchmarkConnectDirect(b *testing.B) {
	r := newRig(b, rules(b))
	r.serve("example.com", 1000, echo)
	buf := make([]byte, 1)
	to := r.world.servers[netip.AddrPortFrom(public, 1000)]
	for b.Loop() {
		c, err := net.Dial("tcp", to)
		if err != nil {
			b.Fatal(err)
		}
		c.Write(buf)
		if _, err := io.ReadFull(c, buf); err != nil {
			b.Fatal(err)
		}
		hangUp(c)
	}
}

// BenchmarkConnect measures connect, first byte there and back, and close.
func BenchmarkConnect(b *testing.B) {
	r := newRig(b, rules(b, "allow example.com"))
	r.serve("example.com", 1000, echo)
	buf := make([]byte, 1)
	for b.Loop() {
		c := r.connect("example.com", 1000)
		c.Write(buf)
		if _, err := io.ReadFull(c, buf); err != nil {
			b.Fatal(err)
		}
		hangUp(c)
	}
}

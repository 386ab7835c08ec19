package gateway

import (
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestServerFirst: the server's words come before the program has said anything.
func TestServerFirst(t *testing.T) {
	for _, banner := range []string{"SSH-2.0-server\r\n", "220 mail ESMTP\r\n", "\x4a\x00\x00\x00\x0a8.0.36\x00"} {
		r := newRig(t, rules(t, "allow example.com tcp"))
		r.serve("example.com", 22, func(c *net.TCPConn) {
			io.WriteString(c, banner)
			io.Copy(c, c)
		})
		c := r.connect("example.com", 22)
		b := make([]byte, len(banner))
		if _, err := io.ReadFull(c, b); err != nil || string(b) != banner {
			t.Fatalf("%q, %v", b, err)
		}
		io.WriteString(c, "\x00hello")
		c.CloseWrite()
		if said, end := outcome(c); said != "\x00hello" || end != "eof" {
			t.Errorf("ended with %s after %q", end, said)
		}
		if e := r.waitEvents("flow", 1)[0]; e.Protocol != "tcp" || e.Sent != 6 || e.Received != int64(len(banner)+6) {
			t.Errorf("%+v", e)
		}
	}
}

// TestServerFirstThenTLS: the checks hold after the server has spoken.
func TestServerFirstThenTLS(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com"))
	server := recorder{}
	r.serve("example.com", 443, func(c *net.TCPConn) {
		io.WriteString(c, "hi")
		server.handle(c)
	})
	for _, send := range []string{string(clientHello(t, "evil.com")), "GET / HTTP/1.1\r\nHost: evil.com\r\n\r\n"} {
		c := r.connect("example.com", 443)
		b := make([]byte, 2)
		io.ReadFull(c, b)
		io.WriteString(c, send)
		said, _ := outcome(c)
		if !strings.HasPrefix(said, "\x15\x03") && !strings.HasPrefix(said, "HTTP/1.1 421 ") {
			t.Errorf("%q", said)
		}
	}
	r.waitEvents("flow", 2)
	if server.bytes() != "" {
		t.Errorf("the server got %q", server.bytes())
	}
}

// TestServerFirstThenHTTP: HTTP after a banner that is no HTTP still works as far as the server likes.
func TestServerFirstThenHTTP(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com"))
	r.serve("example.com", 80, func(c *net.TCPConn) {
		io.WriteString(c, "hi")
		script(ok)(c)
	})
	c := r.connect("example.com", 80)
	io.ReadFull(c, make([]byte, 2))
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
	if said, _ := outcome(c); said != ok {
		t.Errorf("%q", said)
	}
}

func TestHalfClose(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com"))
	r.serve("example.com", 1000, func(c *net.TCPConn) { // answers only when all was read
		b, _ := io.ReadAll(c)
		c.Write(b)
	})
	c := r.connect("example.com", 1000)
	io.WriteString(c, "\x00question")
	c.CloseWrite()
	if said, end := outcome(c); said != "\x00question" || end != "eof" {
		t.Errorf("program first: %s after %q", end, said)
	}
	got := make(chan string, 1)
	r.serve("example.com", 1001, func(c *net.TCPConn) { // ends its side first
		io.WriteString(c, "bye")
		c.CloseWrite()
		b, _ := io.ReadAll(c)
		got <- string(b)
	})
	c = r.connect("example.com", 1001)
	if said, end := outcome(c); said != "bye" || end != "eof" {
		t.Errorf("server first: %s after %q", end, said)
	}
	io.WriteString(c, "\x00still here")
	c.CloseWrite()
	if s := <-got; s != "\x00still here" {
		t.Errorf("the server got %q", s)
	}
}

// TestReset: a reset on one side is a reset on the other.
func TestReset(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com"))
	r.serve("example.com", 1000, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, 1))
		hangUp(c)
	})
	c := r.connect("example.com", 1000)
	io.WriteString(c, "\x00")
	if said, end := outcome(c); said != "" || end != "reset" {
		t.Errorf("by the server: %s after %q", end, said)
	}
	ended := make(chan string, 1)
	r.serve("example.com", 1001, func(c *net.TCPConn) {
		c.Write([]byte("x"))
		_, end := outcome(c)
		ended <- end
	})
	c = r.connect("example.com", 1001)
	io.ReadFull(c, make([]byte, 1))
	hangUp(c)
	if end := <-ended; end != "reset" {
		t.Errorf("by the program: %s", end)
	}
}

// TestBulk: much data passes unharmed, up, down and both ways, with and without a
// budget, in sizes that take every path of the relay.
func TestBulk(t *testing.T) {
	const size = 24 << 20
	data := make([]byte, size)
	random := rand.NewChaCha8([32]byte{})
	random.Read(data)
	data[0] = 0
	sum := sha256.Sum256(data)
	for _, rule := range []string{"allow example.com tcp", "allow example.com tcp up=1GB down=1GB"} {
		for _, pause := range []bool{false, true} {
			r := newRig(t, rules(t, rule))
			send := func(c *net.TCPConn) {
				for rest := data; len(rest) > 0; {
					n := min(len(rest), 3<<20)
					if pause { // small pieces between large ones
						n = min(len(rest), 1+rand.IntN(1<<20))
					}
					c.Write(rest[:n])
					rest = rest[n:]
				}
				c.CloseWrite()
			}
			check := func(what string, c *net.TCPConn) {
				h := sha256.New()
				n, err := io.Copy(h, struct{ io.Reader }{c})
				if err != nil || n != size || [32]byte(h.Sum(nil)) != sum {
					t.Errorf("%s: %d bytes, %v", what, n, err)
				}
			}
			upDone := make(chan struct{}, 2)
			r.serve("example.com", 1000, func(c *net.TCPConn) { check("up", c); upDone <- struct{}{} })
			r.serve("example.com", 1001, func(c *net.TCPConn) { send(c) })
			r.serve("example.com", 1002, func(c *net.TCPConn) {
				var both sync.WaitGroup
				both.Go(func() { send(c) })
				check("both, up", c)
				both.Wait()
				upDone <- struct{}{}
			})
			send(r.connect("example.com", 1000))
			<-upDone
			check("down", r.connect("example.com", 1001))
			c := r.connect("example.com", 1002)
			var both sync.WaitGroup
			both.Go(func() { send(c) })
			check("both, down", c)
			both.Wait()
			<-upDone
			for _, e := range r.waitEvents("flow", 2) {
				if (e.Sent != 0 && e.Sent != size) || (e.Received != 0 && e.Received != size) {
					t.Errorf("%+v", e)
				}
			}
		}
	}
}

// TestBackPressure: a program that does not read holds the server up, and memory stays small.
func TestBackPressure(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com tcp"))
	wrote := make(chan int, 1)
	r.serve("example.com", 1000, func(c *net.TCPConn) {
		total := 0
		b := make([]byte, 1<<20)
		for total < 1<<30 {
			c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			n, err := c.Write(b)
			total += n
			if err != nil {
				break
			}
		}
		wrote <- total
	})
	r.connect("example.com", 1000)
	if n := <-wrote; n >= 1<<28 {
		t.Errorf("the server could write %d bytes that nobody read", n)
	}
}

// TestStaleHalf: a flow of which one side has ended does not stay for ever.
func TestStaleHalf(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com"), func(_ *Config, l *limits) { l.tick = time.Millisecond; l.half = 5 * time.Millisecond })
	r.serve("example.com", 1000, func(c *net.TCPConn) { io.Copy(io.Discard, c); select {} })
	c := r.connect("example.com", 1000)
	io.WriteString(c, "\x00")
	c.CloseWrite()
	if _, end := outcome(c); end != "reset" {
		t.Errorf("ended with %s", end)
	}
}

// TestHostPorts: only the ports that the config names, and by loopback of either family.
func TestHostPorts(t *testing.T) {
	r := newRig(t, rules(t), func(c *Config, _ *limits) { c.HostPorts = []HostPort{{5432, 15432}, {80, 18080}} })
	host4 := mustPort("127.0.0.1:15432")
	r.serveAt(host4, echo)
	r.serveAt(mustPort("[::1]:18080"), func(c *net.TCPConn) { script(ok)(c) })
	c := r.connectTo(mustPort("198.18.0.3:5432"))
	io.WriteString(c, "\x00\x00")
	c.CloseWrite()
	if said, end := outcome(c); said != "\x00\x00" || end != "eof" {
		t.Errorf("%s after %q", end, said)
	}
	c = r.connectTo(mustPort("[fd63:6f66:6665:7200::3]:80"))
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: whatever\r\n\r\n")
	b := make([]byte, len(ok))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != ok {
		t.Errorf("%q, %v", b, err)
	}
	if said, end := outcome(r.connectTo(mustPort("198.18.0.3:15432"))); said != "" || end != "reset" {
		t.Errorf("another port: %s after %q", end, said)
	}
	allowed := 0
	for _, e := range r.waitEvents("flow", 2) {
		if e.Host != "host.coffer.internal" {
			t.Errorf("%+v", e)
		}
		if e.Verdict == "allow" && e.Port == 5432 && e.Sent == 2 {
			allowed++
		}
	}
	if allowed != 1 {
		t.Errorf("%d events of the allowed flow", allowed)
	}
}

// TestTooManyFlows: what is over the limit is refused, and served again when there is room.
func TestTooManyFlows(t *testing.T) {
	r := newRig(t, rules(t, "allow example.com"), func(_ *Config, l *limits) { l.flows = 4 })
	r.serve("example.com", 1000, func(c *net.TCPConn) { io.WriteString(c, "x"); io.Copy(io.Discard, c) })
	var open []*net.TCPConn
	for range 4 {
		c := r.connect("example.com", 1000)
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	if said, end := outcome(r.connect("example.com", 1000)); said != "" || end != "reset" {
		t.Errorf("%s after %q", end, said)
	}
	r.waitEvents("limit", 1)
	open[0].Close()
	r.waitEvents("flow", 1)
	for { // it is counted until just after it was logged
		if _, err := io.ReadFull(r.connect("example.com", 1000), make([]byte, 1)); err == nil {
			break
		}
	}
}

package forward

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/audit"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
)

// patience bounds every wait. Whoever uses it up has found a hang.
const patience = time.Minute

// newForwarder is one of a sandbox with a record, and a guest that is whatever the test makes it.
func newForwarder(t *testing.T, rec sandbox.Record) (*Forwarder, *wire.Session) {
	t.Helper()
	// Not t.TempDir: its path is too long for a socket.
	dir, err := os.MkdirTemp("", "coffer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	store, err := sandbox.Open(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	if rec.Workspace.Mode == "" {
		rec.Workspace.Mode = sandbox.WorkspaceNone
	}
	sb, lock, err := store.Create(rec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lock.Release)
	f := New(sb, func(audit.Event) {}, func(int) {})
	guest, err := wire.NewServer(f.join(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { guest.Close() })
	return f, guest
}

// join gives a forwarder a guest, and returns the guest's end of the wire.
func (f *Forwarder) join(t *testing.T) net.Conn {
	t.Helper()
	a, b := net.Pipe()
	var err error
	if f.session, err = wire.NewClient(a); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.session.Close()
		f.Close()
	})
	return b
}

// open opens what the record names.
func (f *Forwarder) open(t *testing.T) {
	t.Helper()
	if err := errors.Join(f.Reserve(), f.Open(f.session)); err != nil {
		t.Fatal(err)
	}
}

// serveAll lets a function serve every stream that comes to the guest.
func serveAll(guest *wire.Session, serve func(net.Conn, wire.Request)) {
	go func() {
		for {
			c, err := guest.Accept()
			if err != nil {
				return
			}
			go func() {
				var r wire.Request
				if err := wire.ReadMessage(c, wire.MaxRequest, &r); err == nil {
					serve(c, r)
				}
			}()
		}
	}()
}

func accepted(c net.Conn) { wire.WriteMessage(c, wire.Event{Connected: true}) }

// echo is a guest in which something listens and sends back what it gets.
func echo(c net.Conn, r wire.Request) {
	accepted(c)
	a, b := connected()
	go func() {
		io.Copy(b, b)
		b.Close()
	}()
	wire.Relay(a, c)
}

// connected is a connection of the loopback, with both ends.
func connected() (a, b net.Conn) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err == nil {
		defer l.Close()
		if a, err = net.Dial("tcp4", l.Addr().String()); err == nil {
			b, err = l.Accept()
		}
	}
	if err != nil {
		panic(err)
	}
	return a, b
}

func dialPort(t *testing.T, port uint16) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { c.Close() })
	return c
}

// talks says whether a connection leads to an echo.
func talks(c net.Conn) error {
	if _, err := c.Write([]byte("hello")); err != nil {
		return err
	}
	buf := make([]byte, 5)
	if _, err := io.ReadFull(c, buf); err != nil {
		return err
	}
	if string(buf) != "hello" {
		return fmt.Errorf("got %q", buf)
	}
	return nil
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

func anyPort(inside uint16) []sandbox.Forward { return []sandbox.Forward{{Inside: inside, Any: true}} }

func TestForwardCarries(t *testing.T) {
	f, guest := newForwarder(t, sandbox.Record{Forwards: anyPort(3000)})
	asked := make(chan wire.Request, 10)
	serveAll(guest, func(c net.Conn, r wire.Request) { asked <- r; echo(c, r) })
	f.open(t)
	port := f.sb.Forwards[0].Host
	for _, at := range []string{"127.0.0.1", "::1"} {
		c, err := net.Dial("tcp", net.JoinHostPort(at, fmt.Sprint(port)))
		if err != nil {
			if at == "::1" && noIPv6(err) {
				continue
			}
			t.Fatal(err)
		}
		if err := talks(c); err != nil {
			t.Error(err)
		}
		c.Close()
		if r := <-asked; r.Op != wire.OpDial || r.Dial == nil || *r.Dial != (wire.Target{Port: 3000}) {
			t.Errorf("the guest was asked %+v", r)
		}
	}
	for _, e := range f.forwards {
		for _, l := range e.listeners {
			if ip := l.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() {
				t.Errorf("it listens on %s", ip)
			}
		}
	}
}

// A port that is taken, on either address, is said, with what to do.
func TestPortTaken(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			continue
		}
		defer l.Close()
		port := uint16(l.Addr().(*net.TCPAddr).Port)
		f, _ := newForwarder(t, sandbox.Record{Forwards: []sandbox.Forward{{Host: port, Inside: 80}}})
		err = f.Reserve()
		if want := fmt.Sprintf("port %d is taken by another program", port); err == nil || err.Error() != want || ui.HintOf(err) == "" {
			t.Errorf("got %v (%s), want %q", err, ui.HintOf(err), want)
		}
		// Whoever does not mind gets another.
		f, _ = newForwarder(t, sandbox.Record{Forwards: []sandbox.Forward{{Host: port, Inside: 80, Any: true}}})
		if err := f.Reserve(); err != nil || f.sb.Forwards[0].Host == port {
			t.Errorf("got %v, %+v", err, f.sb.Forwards)
		}
	}
}

func TestPlan(t *testing.T) {
	have := []sandbox.Forward{{Host: 8080, Inside: 80}, {Host: 41000, Inside: 3000, Any: true}}
	for name, c := range map[string]struct {
		change wire.Forwarding
		want   string // what becomes of them
		err    string
	}{
		"nothing":       {wire.Forwarding{}, "8080:80 41000:3000", ""},
		"one more":      {wire.Forwarding{Add: []wire.Forward{{Host: 1, Inside: 2}}}, "8080:80 41000:3000 1:2", ""},
		"there already": {wire.Forwarding{Add: []wire.Forward{{Host: 8080, Inside: 80}, {Inside: 3000}}}, "8080:80 41000:3000", ""},
		"twice":         {wire.Forwarding{Add: []wire.Forward{{Inside: 5}, {Inside: 5}}}, "8080:80 41000:3000 0:5", ""},
		"other target":  {wire.Forwarding{Add: []wire.Forward{{Host: 8080, Inside: 81}}}, "", "leads to port 80 inside already"},
		"same twice":    {wire.Forwarding{Add: []wire.Forward{{Host: 9, Inside: 1}, {Host: 9, Inside: 2}}}, "", "leads to port 1 inside already"},
		"no target":     {wire.Forwarding{Add: []wire.Forward{{Host: 8080}}}, "", "leads to a port"},
		"too many":      {wire.Forwarding{Add: many(sandbox.MaxForwards)}, "", "more than the 64"},
		"all gone":      {wire.Forwarding{ClearAll: true}, "", ""},
		"one gone":      {wire.Forwarding{Clear: []wire.Forward{{Host: 8080}}}, "41000:3000", ""},
		"by its target": {wire.Forwarding{Clear: []wire.Forward{{Inside: 3000}}}, "8080:80", ""},
		"exactly":       {wire.Forwarding{Clear: []wire.Forward{{Host: 8080, Inside: 80}}}, "41000:3000", ""},
		"not exactly":   {wire.Forwarding{Clear: []wire.Forward{{Host: 8080, Inside: 81}}}, "", "no port leads from port 8080 to port 81 inside"},
		"not there":     {wire.Forwarding{Clear: []wire.Forward{{Host: 5}}}, "", "no port leads from port 5"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := plan(have, c.change)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v, want %q", err, c.err)
				}
				return
			}
			var got []string
			for _, f := range p.result() {
				got = append(got, fmt.Sprintf("%d:%d", f.Host, f.Inside))
			}
			if err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("got %v, %v, want %s", got, err, c.want)
			}
			if len(p.asked(c.change)) != len(c.change.Add) {
				t.Errorf("asked %v, got %v", c.change.Add, p.asked(c.change))
			}
		})
	}
}

func many(n int) (all []wire.Forward) {
	for i := range n {
		all = append(all, wire.Forward{Host: uint16(10000 + i), Inside: 1})
	}
	return all
}

// Forwards come and go while the sandbox runs, are kept in the record, and what cannot
// be done changes nothing.
func TestForwardChanges(t *testing.T) {
	f, guest := newForwarder(t, sandbox.Record{Forwards: anyPort(3000)})
	serveAll(guest, echo)
	f.open(t)
	first := f.sb.Forwards[0].Host
	ports, err := f.Change(wire.Forwarding{Add: []wire.Forward{{Inside: 4000}, {Inside: 3000}}})
	if err != nil || len(ports.Forwards) != 2 || ports.Forwards[1].Host != first {
		t.Fatalf("got %+v, %v", ports, err)
	}
	second := ports.Forwards[0].Host
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	busy := uint16(taken.Addr().(*net.TCPAddr).Port)
	if _, err := f.Change(wire.Forwarding{Add: []wire.Forward{{Inside: 5000}, {Host: busy, Inside: 6000}}}); ui.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
	saved := func() (ports []uint16) {
		store, _ := sandbox.Open(filepath.Dir(f.sb.Dir()))
		sb, err := store.Get(f.sb.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range sb.Forwards {
			ports = append(ports, f.Host)
		}
		return ports
	}
	if got := saved(); !slices.Equal(got, []uint16{first, second}) {
		t.Errorf("the record has %v, want %d and %d", got, first, second)
	}
	old := dialPort(t, first)
	if err := errors.Join(talks(old), talks(dialPort(t, second))); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Change(wire.Forwarding{Clear: []wire.Forward{{Host: first}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, old); err == nil {
		t.Error("a connection outlived its forward, or ended as if all were well")
	}
	if c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", first)); err == nil {
		t.Error("the port is still open")
		c.Close()
	}
	if err := talks(dialPort(t, second)); err != nil {
		t.Error(err)
	}
	if got := saved(); !slices.Equal(got, []uint16{second}) {
		t.Errorf("the record has %v, want %d", got, second)
	}
}

// A guest that holds on to its streams gets no more than it may have, and whoever
// comes later waits; when it lets go, all is well.
func TestFlood(t *testing.T) {
	f, guest := newForwarder(t, sandbox.Record{Forwards: append(anyPort(3000), anyPort(4000)...)})
	var open atomic.Int32
	release := make(chan struct{})
	serveAll(guest, func(c net.Conn, r wire.Request) {
		if r.Dial.Port == 4000 {
			echo(c, r)
			return
		}
		open.Add(1)
		accepted(c)
		<-release
		wire.HangUp(c)
	})
	f.open(t)
	busy, quiet := f.sb.Forwards[0].Host, f.sb.Forwards[1].Host
	var all []net.Conn
	for range maxVisitsEach + 50 {
		all = append(all, dialPort(t, busy))
	}
	eventually(t, "as many streams as there may be", func() bool { return open.Load() == maxVisitsEach })
	if err := talks(dialPort(t, quiet)); err != nil {
		t.Errorf("another forward suffers: %v", err)
	}
	for _, c := range all {
		c.Close()
	}
	if n := open.Load(); n != maxVisitsEach {
		t.Errorf("%d streams, at most %d allowed", n, maxVisitsEach)
	}
	close(release)
	if err := talks(dialPort(t, quiet)); err != nil {
		t.Error(err)
	}
	eventually(t, "all places are free", func() bool { return len(f.forwards[0].places) == 0 })
}

// Whatever the guest answers, the client hears that it failed, and the next one is
// served.
func TestGuestAnswersGarbage(t *testing.T) {
	for name, answer := range map[string][]byte{
		"nothing":    nil,
		"zeros":      make([]byte, 100),
		"junk":       []byte("HTTP/1.1 200 OK\r\n\r\n"),
		"huge":       {0xff, 0xff, 0xff, 0xff},
		"wrong":      message(t, wire.Event{Credit: 3}),
		"refusal":    message(t, wire.Event{Failure: &wire.Failure{Message: "\x1b[2Jno"}}),
		"bad frames": append(message(t, wire.Event{Connected: true}), "mnonsense and more of it"...),
	} {
		t.Run(name, func(t *testing.T) {
			f, guest := newForwarder(t, sandbox.Record{Forwards: anyPort(3000)})
			var first atomic.Bool
			serveAll(guest, func(c net.Conn, r wire.Request) {
				if first.CompareAndSwap(false, true) {
					c.Write(answer)
					c.Close()
					return
				}
				echo(c, r)
			})
			f.open(t)
			// It may hear of it while it connects.
			c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", f.sb.Forwards[0].Host))
			if err == nil {
				var got []byte
				if got, err = io.ReadAll(c); len(got) > 0 {
					t.Errorf("the client got %q", got)
				}
				c.Close()
			}
			if err == nil {
				t.Error("the client heard of no failure")
			}
			if err := talks(dialPort(t, f.sb.Forwards[0].Host)); err != nil {
				t.Error(err)
			}
		})
	}
}

func message(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := wire.WriteMessage(&b, v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

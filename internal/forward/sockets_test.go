package forward

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/wire"
)

// hostSocket is a socket of the host that echoes, and counts who comes.
func hostSocket(t *testing.T) (path string, came *atomic.Int32) {
	t.Helper()
	dir, err := os.MkdirTemp("", "coffer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path, came = filepath.Join(dir, "s"), new(atomic.Int32)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			go func() {
				io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	return path, came
}

func socketIn(host string) sandbox.Record {
	return sandbox.Record{Sockets: []sandbox.Socket{{Way: sandbox.SocketIn, Host: host, Inside: "/run/s"}}}
}

// overStream is a connection that the guest opens to the host.
func overStream(t *testing.T, guest *wire.Session, path string) (net.Conn, error) {
	t.Helper()
	stream, err := wire.DialTarget(guest, wire.Target{Path: path}, patience)
	if err != nil {
		return nil, err
	}
	a, b := connected()
	go wire.Relay(b, stream)
	t.Cleanup(func() { a.Close() })
	return a, nil
}

// The guest may reach what the user named, by the name that it was given.
func TestSocketIn(t *testing.T) {
	host, came := hostSocket(t)
	f, guest := newForwarder(t, socketIn(host))
	offered := make(chan string, 10)
	serveAll(guest, func(c net.Conn, r wire.Request) {
		offered <- r.Op + " " + r.Listen.Path
		accepted(c)
		c.Close()
	})
	f.open(t)
	if got := <-offered; got != "listen /run/s" {
		t.Errorf("the guest was told: %s", got)
	}
	c, err := overStream(t, guest, "/run/s")
	if err != nil {
		t.Fatal(err)
	}
	if err := talks(c); err != nil || came.Load() != 1 {
		t.Errorf("%v, %d came", err, came.Load())
	}
}

// A hostile guest reaches nothing else, and does no harm.
func TestSocketInHostile(t *testing.T) {
	host, came := hostSocket(t)
	f, guest := newForwarder(t, socketIn(host))
	serveAll(guest, func(c net.Conn, _ wire.Request) { accepted(c); c.Close() })
	f.open(t)
	for name, first := range map[string][]byte{
		"other path":  message(t, wire.Request{Op: wire.OpDial, Dial: &wire.Target{Path: host}}),
		"dots":        message(t, wire.Request{Op: wire.OpDial, Dial: &wire.Target{Path: "/run/../run/s"}}),
		"no path":     message(t, wire.Request{Op: wire.OpDial, Dial: &wire.Target{}}),
		"port":        message(t, wire.Request{Op: wire.OpDial, Dial: &wire.Target{Port: 22}}),
		"no target":   message(t, wire.Request{Op: wire.OpDial}),
		"exec":        message(t, wire.Request{Op: wire.OpExec, Exec: &wire.Exec{Argv: [][]byte{[]byte("true")}}}),
		"stop":        message(t, wire.Request{Op: wire.OpStop, Stop: &wire.Stop{}}),
		"forward":     message(t, wire.Request{Op: wire.OpForward, Forward: &wire.Forwarding{Add: []wire.Forward{{Inside: 1}}}}),
		"too long":    message(t, wire.Request{Op: wire.OpDial, Dial: &wire.Target{Path: "/run/s" + strings.Repeat("x", maxFirst)}}),
		"a lie":       {0x7f, 0xff, 0xff, 0xff, '{'},
		"junk":        []byte(strings.Repeat("\xfe\x01junk", 1000)),
		"hung up":     nil,
		"not a frame": append(message(t, wire.Request{Op: wire.OpDial, Dial: &wire.Target{Path: "/run/none"}}), "bytes"...),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := guest.Open()
			if err != nil {
				t.Fatal(err)
			}
			c.Write(first)
			go c.Close()
			c.SetReadDeadline(time.Now().Add(patience))
			if got, err := io.ReadAll(c); err != nil || len(got) > 0 {
				t.Errorf("it was answered %q, %v", got, err)
			}
		})
	}
	if n := came.Load(); n != 0 {
		t.Errorf("%d connections reached the host's socket", n)
	}
	if n := len(f.forwards); n != 0 {
		t.Errorf("the guest made %d forwards", n)
	}
	if c, err := overStream(t, guest, "/run/s"); err != nil || talks(c) != nil {
		t.Errorf("the proper way is closed: %v", err)
	}
}

// A guest that opens streams without end gets a few.
func TestSocketInFlood(t *testing.T) {
	host, came := hostSocket(t)
	f, guest := newForwarder(t, socketIn(host))
	serveAll(guest, func(c net.Conn, _ wire.Request) { accepted(c); c.Close() })
	f.open(t)
	var all []net.Conn
	hello := message(t, wire.Request{Op: wire.OpDial, Dial: &wire.Target{Path: "/run/s"}})
	for range maxGuests + 200 {
		c, err := guest.Open()
		if err != nil {
			t.Fatal(err)
		}
		c.Write(hello)
		all = append(all, c)
	}
	eventually(t, "all places are taken", func() bool { return came.Load() >= maxGuests })
	if n := came.Load(); n > maxGuests {
		t.Errorf("%d connections reached the host's socket at once, at most %d may", n, maxGuests)
	}
	for _, c := range all {
		c.Close()
	}
	eventually(t, "all places but the one of the next guest are free", func() bool { return len(f.guests) <= 1 })
	if c, err := overStream(t, guest, "/run/s"); err != nil || talks(c) != nil {
		t.Errorf("the proper way is closed: %v", err)
	}
}

// Nor does one that speaks to the multiplexer itself, and heeds none of its rules.
func TestSocketInRawFlood(t *testing.T) {
	host, came := hostSocket(t)
	f, _ := newForwarder(t, socketIn(host))
	raw := f.join(t)
	f.offered = map[string]string{"/run/s": host}
	f.visits.Go(f.serveGuest)
	go io.Copy(io.Discard, raw)
	hello := message(t, wire.Request{Op: wire.OpDial, Dial: &wire.Target{Path: "/run/s"}})
	const streams = 3000
	for id := uint32(2); id <= 2*streams; id += 2 {
		// Data that opens a stream: version, type, flags, stream, length.
		frame := []byte{0, 0, 0, 1}
		frame = binary.BigEndian.AppendUint32(frame, id)
		frame = binary.BigEndian.AppendUint32(frame, uint32(len(hello)))
		if _, err := raw.Write(append(frame, hello...)); err != nil {
			t.Fatalf("the session was ended after %d streams: %v", id/2, err)
		}
	}
	eventually(t, "all places are taken", func() bool { return came.Load() >= maxGuests })
	const backlog = 256
	if n := f.session.NumStreams(); n > maxGuests+backlog+1 {
		t.Errorf("%d streams are open", n)
	}
	if n := came.Load(); n > maxGuests {
		t.Errorf("%d connections reached the host's socket at once, at most %d may", n, maxGuests)
	}
}

// A guest that cannot make the socket stops the start.
func TestSocketInRefused(t *testing.T) {
	host, _ := hostSocket(t)
	f, guest := newForwarder(t, socketIn(host))
	serveAll(guest, func(c net.Conn, _ wire.Request) {
		wire.WriteMessage(c, wire.Event{Failure: &wire.Failure{Message: "read-only file system"}})
		c.Close()
	})
	if err := f.Open(f.session); err == nil || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("got %v", err)
	}
}

func socketOut(t *testing.T) (sandbox.Record, string) {
	dir, err := os.MkdirTemp("", "coffer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "out")
	return sandbox.Record{Sockets: []sandbox.Socket{{Way: sandbox.SocketOut, Host: path, Inside: "/run/db"}}}, path
}

// only fails the test if a directory has other files than these.
func only(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the directory has %v, want %v", got, want)
	}
}

func TestSocketOut(t *testing.T) {
	rec, path := socketOut(t)
	f, guest := newForwarder(t, rec)
	asked := make(chan wire.Request, 1)
	serveAll(guest, func(c net.Conn, r wire.Request) { asked <- r; echo(c, r) })
	f.open(t)
	only(t, filepath.Dir(path), "out")
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := talks(c); err != nil {
		t.Error(err)
	}
	if r := <-asked; r.Op != wire.OpDial || *r.Dial != (wire.Target{Path: "/run/db"}) {
		t.Errorf("the guest was asked %+v", r)
	}
	f.session.Close()
	f.Close()
	only(t, filepath.Dir(path))
	if _, err := os.Lstat(filepath.Join(f.sb.Dir(), socketsName)); err == nil {
		t.Error("it is still written down")
	}
}

// A file that exists is not touched, neither at the start nor at the end.
func TestSocketOutKeepsFiles(t *testing.T) {
	rec, path := socketOut(t)
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, _ := newForwarder(t, rec)
	if err := f.Reserve(); err == nil || !strings.Contains(err.Error(), "there is a file of this name") {
		t.Errorf("got %v", err)
	}
	f.Close()
	only(t, filepath.Dir(path), "out")
	if b, _ := os.ReadFile(path); string(b) != "mine" {
		t.Errorf("the file has %q", b)
	}

	// One that takes the socket's place while it runs.
	rec, path = socketOut(t)
	f, _ = newForwarder(t, rec)
	if err := f.Reserve(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, []byte("mine"), 0o600)); err != nil {
		t.Fatal(err)
	}
	f.Close()
	only(t, filepath.Dir(path), "out", "out.old")
}

// What a killed supervisor left is removed, if it is still that.
func TestForgetSockets(t *testing.T) {
	rec, path := socketOut(t)
	killed := func() *Forwarder {
		f, _ := newForwarder(t, rec)
		if err := f.Reserve(); err != nil {
			t.Fatal(err)
		}
		// As the kernel would leave it: nobody listens, the files are there.
		f.sockets[0].close()
		if err := os.Mkdir(workshop(rec.Sockets[0], f.sb.ID), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(workshop(rec.Sockets[0], f.sb.ID), "s"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := killed()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	Forget(f.sb.Dir(), f.sb.Record)
	only(t, filepath.Dir(path))

	// The next start manages without that, too.
	f = killed()
	f.sockets = nil
	if err := f.Reserve(); err != nil {
		t.Error(err)
	}
	f.Close()
	only(t, filepath.Dir(path))

	// Somebody else listens there by now.
	f = killed()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	Forget(f.sb.Dir(), f.sb.Record)
	only(t, filepath.Dir(path), "out")

	// What another user put in the workshop's place is not followed.
	precious := filepath.Join(filepath.Dir(path), "precious")
	if err := errors.Join(os.Mkdir(precious, 0o700), os.WriteFile(filepath.Join(precious, "s"), nil, 0o600),
		os.Symlink(precious, workshop(rec.Sockets[0], f.sb.ID))); err != nil {
		t.Fatal(err)
	}
	Forget(f.sb.Dir(), f.sb.Record)
	only(t, precious, "s")
}

// A guest that does not say what listens is asked once, and not waited for.
func TestSurvey(t *testing.T) {
	f, guest := newForwarder(t, sandbox.Record{})
	var asked atomic.Int32
	speak := make(chan struct{})
	serveAll(guest, func(c net.Conn, r wire.Request) {
		asked.Add(1)
		<-speak
		wire.WriteMessage(c, wire.Event{Ports: &wire.Ports{Listening: []wire.Port{{Port: 3000, Address: "127.0.0.1", Program: "node"}}}})
		c.Close()
	})
	for range 3 {
		if got := f.Ports(); len(got.Listening) != 0 {
			t.Errorf("got %v before it was told", got)
		}
	}
	eventually(t, "the guest is asked", func() bool { return asked.Load() > 0 })
	if n := asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	close(speak)
	eventually(t, "it is known", func() bool {
		got := f.Ports().Listening
		return len(got) == 1 && got[0].Program == "node"
	})
}

func TestBelievable(t *testing.T) {
	told := []wire.Port{
		{Port: 80, Address: "0.0.0.0", Program: "a\x1b[2J\nb"},
		{Port: 0, Address: "0.0.0.0"},
		{Port: 81, Address: "anywhere\x1b"},
		{Port: 82, Address: "fe80::1%\x1b[2J"},
		{Port: 83, Address: "::", Program: strings.Repeat("x", 5000)},
	}
	got := believable(told)
	want := []wire.Port{{Port: 80, Address: "0.0.0.0", Program: "a?[2J?b"}, {Port: 83, Address: "::", Program: strings.Repeat("x", 32)}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if n := len(believable(make([]wire.Port, 100000))); n != 0 {
		t.Errorf("%d", n)
	}
	for range 1000 {
		told = append(told, wire.Port{Port: 1, Address: "::1"})
	}
	if n := len(believable(told)); n > wire.MaxPorts {
		t.Errorf("%d ports", n)
	}
}

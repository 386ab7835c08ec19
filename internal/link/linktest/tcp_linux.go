package linktest

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func testAddresses(t *testing.T, m Machine) {
	flows := m.flows(t)
	for _, to := range destinations {
		dialled := make(chan net.Conn, 1)
		go func() {
			c, err := m.Dial(to)
			if err != nil {
				t.Errorf("connect to %s from inside: %v", to, err)
			}
			dialled <- c
		}()
		f := next(t, flows)
		if f.Destination() != to {
			t.Fatalf("flow to %s, want %s", f.Destination(), to)
		}
		outside, err := f.Accept()
		if err != nil {
			t.Fatalf("accept the flow to %s: %v", to, err)
		}
		inside := <-dialled
		if t.Failed() {
			return
		}
		if got, want := f.Source(), addrPort(inside.LocalAddr()); got != want {
			t.Errorf("flow from %s, want %s", got, want)
		}
		if got := addrPort(outside.LocalAddr()); got != to {
			t.Errorf("local address outside is %s, want %s", got, to)
		}
		if got, want := addrPort(outside.RemoteAddr()), f.Source(); got != want {
			t.Errorf("remote address outside is %s, want %s", got, want)
		}
		if got := addrPort(inside.RemoteAddr()); got != to {
			t.Errorf("remote address inside is %s, want %s", got, to)
		}
		echo(t, inside, outside)
		inside.Close()
		outside.Close()
	}
}

// echo sends some bytes both ways.
func echo(t testing.TB, a, b net.Conn) {
	t.Helper()
	for _, c := range [][2]net.Conn{{a, b}, {b, a}} {
		const text = "the quick brown fox"
		if _, err := c[0].Write([]byte(text)); err != nil {
			t.Fatalf("write: %v", err)
		}
		got := make([]byte, len(text))
		if _, err := io.ReadFull(c[1], got); err != nil || string(got) != text {
			t.Fatalf("read %q and %v, want %q", got, err, text)
		}
	}
}

// refused says whether an error is how a program learns that its connection is not
// wanted.
func refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)
}

func testRefuse(t *testing.T, m Machine) {
	flows := m.flows(t)
	each(t, func(t *testing.T, to netip.AddrPort) {
		result := make(chan error, 1)
		go func() {
			c, err := m.Dial(to)
			if err == nil { // a link that connects first resets then
				defer c.Close()
				_, err = c.Read(make([]byte, 1))
			}
			result <- err
		}()
		f := next(t, flows)
		f.Refuse()
		if err := <-result; !refused(err) {
			t.Errorf("the program got %v, want a refusal", err)
		}
		// Others are not concerned.
		inside, outside := m.pair(t, flows, to)
		echo(t, inside, outside)
	})
}

func testPending(t *testing.T, m Machine) {
	flows := m.flows(t)
	first, second := families[0], families[1]
	type result struct {
		n   int
		err error
	}
	results := make(chan result, 1)
	go func() {
		c, err := m.Dial(first)
		if err != nil {
			results <- result{0, err}
			return
		}
		defer c.Close()
		n, err := c.Read(make([]byte, 10))
		results <- result{n, err}
	}()
	held := next(t, flows)
	// While one is held, others come and go.
	inside, outside := m.pair(t, flows, second)
	echo(t, inside, outside)
	select {
	case r := <-results:
		t.Fatalf("the held program got %+v before any decision", r)
	default:
	}
	c, err := held.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("now"))
	if r := <-results; r.n != 3 || r.err != nil {
		t.Errorf("the held program got %+v, want 3 bytes", r)
	}
}

func testHalfCloseInside(t *testing.T, m Machine) {
	flows := m.flows(t)
	each(t, func(t *testing.T, to netip.AddrPort) {
		inside, outside := m.pair(t, flows, to)
		halfClose(t, inside, outside)
	})
}

func testHalfCloseOutside(t *testing.T, m Machine) {
	flows := m.flows(t)
	each(t, func(t *testing.T, to netip.AddrPort) {
		inside, outside := m.pair(t, flows, to)
		halfClose(t, outside, inside)
	})
}

type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// halfClose ends one direction, and uses the other after that.
func halfClose(t *testing.T, a, b halfCloser) {
	t.Helper()
	a.Write([]byte("question"))
	if err := a.CloseWrite(); err != nil {
		t.Fatalf("CloseWrite: %v", err)
	}
	if got, err := io.ReadAll(b); string(got) != "question" || err != nil {
		t.Fatalf("read %q and %v, want the question and the end", got, err)
	}
	if _, err := a.Write([]byte("more")); err == nil {
		t.Error("wrote after CloseWrite")
	}
	b.Write([]byte("answer"))
	if err := b.CloseWrite(); err != nil {
		t.Fatalf("CloseWrite: %v", err)
	}
	if got, err := io.ReadAll(a); string(got) != "answer" || err != nil {
		t.Fatalf("read %q and %v, want the answer and the end", got, err)
	}
}

func testCloseOutside(t *testing.T, m Machine) {
	flows := m.flows(t)
	inside, outside := m.pair(t, flows, families[0])
	outside.Write([]byte("the last words"))
	if err := outside.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(inside); string(got) != "the last words" || err != nil {
		t.Errorf("read %q and %v, want the last words and the end", got, err)
	}
	if _, err := outside.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after Close: %v, want net.ErrClosed", err)
	}
	if _, err := outside.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after Close: %v, want net.ErrClosed", err)
	}
}

func testResetOutside(t *testing.T, m Machine) {
	flows := m.flows(t)
	each(t, func(t *testing.T, to netip.AddrPort) {
		inside, outside := m.pair(t, flows, to)
		echo(t, inside, outside)
		outside.Reset()
		if n, err := inside.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the program read %d and %v, want connection reset", n, err)
		}
		if _, err := outside.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read after Reset: %v, want net.ErrClosed", err)
		}
	})
}

func testResetInside(t *testing.T, m Machine) {
	flows := m.flows(t)
	each(t, func(t *testing.T, to netip.AddrPort) {
		inside, outside := m.pair(t, flows, to)
		echo(t, inside, outside)
		inside.SetLinger(0)
		inside.Close()
		if n, err := outside.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read %d and %v, want connection reset", n, err)
		}
	})
}

func testServerFirst(t *testing.T, m Machine) {
	flows := m.flows(t)
	inside, outside := m.pair(t, flows, families[0])
	outside.Write([]byte("220 hello\r\n"))
	b := make([]byte, 11)
	if _, err := io.ReadFull(inside, b); err != nil || string(b) != "220 hello\r\n" {
		t.Errorf("read %q and %v, want the greeting", b, err)
	}
}

// testPortReuse connects from the same port to the same address again and again, each
// time after the other side has closed first: then it is the other side that might
// think the old connection still alive.
func testPortReuse(t *testing.T, m Machine) {
	flows := m.flows(t)
	from := netip.AddrPort{}
	for range 5 {
		fd, err := m.Inside.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), "tcp")
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		if from.IsValid() {
			if err := unix.Bind(fd, sockaddr(from)); err != nil {
				t.Fatal(err)
			}
		}
		result := make(chan error, 1)
		go func() {
			err := connect(f, families[0])
			// Until the last acknowledgement is there, the kernel inside does not
			// let go of the old connection.
			for until := time.Now().Add(patience); errors.Is(err, unix.EADDRNOTAVAIL) && time.Now().Before(until); {
				time.Sleep(time.Millisecond)
				err = connect(f, families[0])
			}
			result <- err
		}()
		outside, err := next(t, flows).Accept()
		if err != nil {
			t.Fatal(err)
		}
		if err := <-result; err != nil {
			t.Fatal(err)
		}
		inside, err := net.FileConn(f)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		from = addrPort(inside.LocalAddr())
		outside.Close()
		inside.SetDeadline(time.Now().Add(patience))
		if _, err := inside.Read(make([]byte, 1)); err != io.EOF {
			t.Fatalf("read: %v, want the end", err)
		}
		inside.Close()
	}
}

func testDeadlines(t *testing.T, m Machine) {
	flows := m.flows(t)
	inside, outside := m.pair(t, flows, families[0])
	b := make([]byte, 1)

	outside.SetReadDeadline(time.Now().Add(-time.Second))
	if _, err := outside.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read after a deadline: %v", err)
	}
	outside.SetReadDeadline(time.Time{})
	result := make(chan error)
	read := func() {
		_, err := outside.Read(b)
		result <- err
	}
	go read()
	outside.SetReadDeadline(time.Now().Add(time.Millisecond))
	if err := <-result; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read when its deadline comes: %v", err)
	}
	outside.SetReadDeadline(time.Now().Add(patience))
	go read()
	inside.Write([]byte("x"))
	if err := <-result; err != nil || b[0] != 'x' {
		t.Errorf("read with a new deadline: %q, %v", b, err)
	}
	go read()
	outside.Close()
	if err := <-result; !errors.Is(err, net.ErrClosed) {
		t.Errorf("read when closed: %v, want net.ErrClosed", err)
	}
}

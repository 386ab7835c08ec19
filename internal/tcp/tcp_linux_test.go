package tcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sys/unix"
)

// listen makes a listener on loopback of a family.
func listen(t *testing.T, at string) *Listener {
	t.Helper()
	n := testbed.Listen(t, "tcp", at)
	defer n.Close()
	f, err := n.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, err := Listen(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// pair is the two ends of a connection.
func pair(t *testing.T, at string) (near, far *Conn) {
	t.Helper()
	l := listen(t, at)
	near, err := Dial(context.Background(), l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	for _, c := range []*Conn{near, far} {
		c.SetDeadline(time.Now().Add(time.Minute)) // a hang is a failure
	}
	return near, far
}

func TestConn(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		near, far := pair(t, at)
		if near.Local() != far.Remote() || near.Remote() != far.Local() || near.LocalAddr().String() != far.RemoteAddr().String() {
			t.Errorf("%s: from %s to %s, and from %s to %s", at, near.Local(), near.Remote(), far.Local(), far.Remote())
		}
		data := make([]byte, 8<<20) // more than the kernel takes at once
		rand.NewChaCha8([32]byte{}).Read(data)
		go func() {
			near.Write(data)
			near.CloseWrite()
		}()
		if got, err := io.ReadAll(far); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		io.WriteString(far, "still") // half a connection is one
		b := make([]byte, 5)
		if _, err := io.ReadFull(near, b); err != nil || string(b) != "still" {
			t.Errorf("%q, %v", b, err)
		}
	}
}

func TestEnds(t *testing.T) {
	near, far := pair(t, "127.0.0.1:0")
	far.SetReadDeadline(time.Unix(1, 0))
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	far.SetReadDeadline(time.Time{})
	near.Reset()
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("after a reset: %v", err)
	}
	if _, err := far.Write(make([]byte, 1)); !errors.Is(err, unix.EPIPE) {
		t.Errorf("to nobody: %v", err)
	}
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the close: %v", err)
	}
	if err := near.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
}

// A close wakes who waits.
func TestCloseWakes(t *testing.T) {
	for name, wait := range map[string]func(c *Conn) error{
		"read":  func(c *Conn) error { _, err := c.Read(make([]byte, 1)); return err },
		"write": func(c *Conn) error { _, err := c.Write(make([]byte, 64<<20)); return err },
	} {
		near, _ := pair(t, "127.0.0.1:0")
		ended := make(chan error, 1)
		go func() { ended <- wait(near) }()
		time.AfterFunc(time.Millisecond, func() { near.Close() }) // before or while it waits
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	l := listen(t, "127.0.0.1:0")
	time.AfterFunc(time.Millisecond, func() { l.Close() })
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v", err)
	}
}

func TestDialFails(t *testing.T) {
	n, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to := netip.MustParseAddrPort(n.Addr().String())
	n.Close()
	if _, err := Dial(context.Background(), to); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("to nobody: %v", err)
	}
	if _, err := Dial(context.Background(), netip.AddrPort{}); err == nil {
		t.Error("no address was dialled")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Dial(ctx, to); !errors.Is(err, context.Canceled) {
		t.Errorf("too late: %v", err)
	}
}

// A dial ends with its context, also while the other side says nothing.
func TestDialEnds(t *testing.T) {
	to := silent(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := Dial(ctx, to)
		failed <- err
	}()
	waiting := fmt.Sprintf(":%04X 02 ", to.Port()) // SYN_SENT
	for {
		all, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(all), waiting) {
			break
		}
		select {
		case err := <-failed:
			t.Fatalf("it did not wait: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for range 100 { // at any moment
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		if _, err := Dial(ctx, to); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	ctx, cancel = context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, to); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// silent is an address that does not answer: nobody accepts, and the queue is full.
func silent(t *testing.T) netip.AddrPort {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(s) })
	if err := errors.Join(unix.Bind(s, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(s, 0)); err != nil {
		t.Fatal(err)
	}
	to, err := name(s)
	if err != nil {
		t.Fatal(err)
	}
	first, err := Dial(context.Background(), to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { first.Close() })
	return to
}

// A connection that has to be waited for is one: the queue gets room after a while.
func TestDialWaits(t *testing.T) {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Bind(s, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(s, 0)); err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(s), "s")
	defer f.Close()
	l, err := Listen(f)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	const many = 4
	dialled := make(chan error, many)
	for range many {
		go func() {
			c, err := Dial(ctx, l.Addr())
			if err == nil {
				_, err = c.Write([]byte("x"))
			}
			dialled <- err
		}()
	}
	for range many {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
	}
	for range many {
		if err := <-dialled; err != nil {
			t.Error(err)
		}
	}
}

func TestPipe(t *testing.T) {
	from, src := pair(t, "127.0.0.1:0")
	dst, to := pair(t, "127.0.0.1:0")
	data := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{}).Read(data)
	go func() {
		from.Write(data)
		from.CloseWrite()
	}()
	got := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(to)
		got <- b
	}()
	p, err := NewPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for {
		n, err := p.Fill(src, 1<<20)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if sent, err := p.Drain(dst, n); sent != n || err != nil {
			t.Fatalf("%d of %d, %v", sent, n, err)
		}
	}
	dst.CloseWrite()
	if b := <-got; !bytes.Equal(b, data) {
		t.Errorf("%d bytes", len(b))
	}
	src.SetReadDeadline(time.Unix(1, 0))
	if _, err := p.Fill(src, 1); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
}

func TestTake(t *testing.T) {
	near, far := pair(t, "127.0.0.1:0")
	data := make([]byte, 32<<20) // more than the kernel takes
	rand.NewChaCha8([32]byte{}).Read(data)
	full := make(chan struct{})
	var once sync.Once
	go func() {
		defer near.CloseWrite()
		for left := data; len(left) > 0; {
			n, err := near.Take(func(w io.Writer) {
				n, err := w.Write(left[:min(len(left), 1<<20)])
				switch {
				case err == nil:
				case !errors.Is(err, unix.EAGAIN):
					t.Error(err)
				case len(left)-n > 0:
					once.Do(func() { close(full) })
				}
				left = left[n:]
			})
			if n == 0 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
				return
			}
		}
	}()
	<-full
	if got, err := io.ReadAll(far); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	// Nothing to take is no reason to wait.
	if n, err := near.Take(func(io.Writer) {}); n != 0 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	near.Close()
	if _, err := near.Take(func(w io.Writer) { w.Write(data) }); !errors.Is(err, net.ErrClosed) {
		t.Error("after the end:", err)
	}
}

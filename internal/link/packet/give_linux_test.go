package packet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/link/linktest"
	"github.com/cofferhq/coffer/internal/tcp"
)

// through is a connection from inside, and one of the kernel that what it says is given to.
func through(t *testing.T, m linktest.Machine) (inside net.Conn, outside *conn, up *tcp.Conn, server net.Conn) {
	t.Helper()
	dialled := make(chan net.Conn, 1)
	go func() {
		c, err := m.Dial(netip.AddrPortFrom(outside4, 80))
		if err != nil {
			t.Error(err)
		}
		dialled <- c
	}()
	f, err := m.Link.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var c link.Conn
	if c, err = f.Accept(); err != nil {
		t.Fatal(err)
	}
	inside = <-dialled
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if up, err = tcp.Dial(context.Background(), l.Addr().(*net.TCPAddr).AddrPort()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{inside, c, up, server} {
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(2 * time.Minute)) // a hang is a failure
	}
	return inside, c.(*conn), up, server
}

// giveAll gives until the end, and says what came of it on both sides.
func giveAll(c *conn, up *tcp.Conn) (sum int64, read, write error) {
	for {
		err := c.Give(256<<10, func(from func(io.Writer)) error {
			n, err := up.Take(from)
			sum += int64(n)
			write = err
			return err
		})
		if err != nil || write != nil {
			return sum, err, write
		}
	}
}

func TestGive(t *testing.T) {
	m := overSocket(t, linktest.Users()[0], Options{})
	data := make([]byte, 32<<20) // more than all buffers on the way take
	rand.NewChaCha8([32]byte{}).Read(data)

	t.Run("all of it, and the end", func(t *testing.T) {
		inside, outside, up, server := through(t, m)
		go func() {
			// Small and large, so that some is copied and some is not.
			for _, n := range []int{1, 100, 20 << 10, 60 << 10} {
				inside.Write(data[:n])
			}
			inside.Write(data)
			inside.(*net.TCPConn).CloseWrite()
		}()
		given := make(chan error, 1)
		go func() {
			_, err, failed := giveAll(outside, up)
			up.CloseWrite()
			given <- errors.Join(failed, err)
		}()
		want := bytes.Join([][]byte{data[:1], data[:100], data[:20<<10], data[:60<<10], data}, nil)
		got, err := io.ReadAll(server)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d of %d bytes arrived, %v", len(got), len(want), err)
		}
		if err := <-given; !errors.Is(err, io.EOF) {
			t.Error("it ended with", err)
		}
	})
	t.Run("to nobody", func(t *testing.T) {
		inside, outside, up, server := through(t, m)
		server.Close()
		go inside.Write(data)
		if _, _, failed := giveAll(outside, up); !errors.Is(failed, syscall.EPIPE) && !errors.Is(failed, syscall.ECONNRESET) {
			t.Error("it ended with", failed)
		}
	})
	t.Run("to a server that does not read", func(t *testing.T) {
		inside, outside, up, _ := through(t, m)
		go inside.Write(data)
		given := make(chan error, 1)
		go func() {
			_, _, failed := giveAll(outside, up)
			given <- failed
		}()
		up.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		if err := <-given; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("it ended with", err)
		}
	})
	t.Run("from one that is reset", func(t *testing.T) {
		inside, outside, up, _ := through(t, m)
		inside.(*net.TCPConn).SetLinger(0)
		inside.Close()
		if _, err, _ := giveAll(outside, up); !errors.Is(err, syscall.ECONNRESET) {
			t.Error("it ended with", err)
		}
	})
	t.Run("from one that is silent", func(t *testing.T) {
		_, outside, up, _ := through(t, m)
		outside.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err, _ := giveAll(outside, up); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("it ended with", err)
		}
		outside.SetReadDeadline(time.Time{})
		time.AfterFunc(50*time.Millisecond, func() { outside.Close() })
		if _, err, _ := giveAll(outside, up); !errors.Is(err, net.ErrClosed) {
			t.Error("closed, it ended with", err)
		}
	})
}

// A room is given away with a large payload only, and only with one that is in it.
func TestRoom(t *testing.T) {
	var r room
	b := r.open()
	if len(b) != roomSize {
		t.Fatalf("%d bytes", len(b))
	}
	if r.keep(b[100:200]) != nil || r.keep(make([]byte, roomSize)) != nil {
		t.Fatal("given away for nothing")
	}
	if again := r.open(); &again[0] != &b[0] {
		t.Error("not used again")
	}
	copy(b[76:], "payload")
	v := r.keep(b[76 : 76+keepFrom])
	if v == nil || v.Size() != keepFrom || string(v.AsSlice()[:7]) != "payload" {
		t.Fatal("not given away")
	}
	if r.keep(b[76:]) != nil {
		t.Error("given away twice")
	}
	if again := r.open(); &again[0] == &b[0] {
		t.Error("used by two")
	}
	v.Release()
	r.close()
	r.close()
}

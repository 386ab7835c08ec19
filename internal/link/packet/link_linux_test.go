package packet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/link/linktest"
	"golang.org/x/sys/unix"
)

func TestPing(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		m := overSocket(t, uid)
		for a, want := range map[netip.Addr]error{
			link.About4: nil, link.About6: nil, assigned4: nil, assigned6: nil,
			outside4: unix.EHOSTUNREACH, outside6: unix.EACCES,
		} {
			if err := m.Ping(t, a); !errors.Is(err, want) {
				t.Errorf("ping of %s: %v, want %v", a, err, want)
			}
		}
	})
}

// A program may hand its kernel several datagrams as one, to be cut on the way. The
// veth pair leaves that to us.
func TestDatagramsInOne(t *testing.T) {
	m := overSocket(t, linktest.Users()[0])
	for _, to := range []netip.Addr{outside4, outside6} {
		domain, family := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Port: 443, Addr: outside4.As4()})
		if to.Is6() {
			domain, family = unix.AF_INET6, &unix.SockaddrInet6{Port: 443, Addr: outside6.As16()}
		}
		fd, err := m.Inside.Socket(domain, unix.SOCK_DGRAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, 1000); err != nil {
			t.Fatal(err)
		}
		if err := unix.Connect(fd, family); err != nil {
			t.Fatal(err)
		}
		var all []byte
		for i := range 25 {
			all = append(all, bytes.Repeat([]byte{byte('a' + i)}, 100)...)
		}
		if _, err := unix.Write(fd, all); err != nil {
			t.Fatal(err)
		}
		for i, want := range [][]byte{all[:1000], all[1000:2000], all[2000:]} {
			b := make([]byte, 5000)
			n, _, got, err := m.Link.ReadDatagram(b)
			if err != nil || got != netip.AddrPortFrom(to, 443) || !bytes.Equal(b[:n], want) {
				t.Fatalf("datagram %d: %d bytes to %s, %v; want %d", i, n, got, err, len(want))
			}
		}
	}
}

// TestNothingStays ends connections in every way there is, and looks for what is left.
func TestNothingStays(t *testing.T) {
	m := overSocket(t, linktest.Users()[0])
	l := m.Link.(*Link)
	ends := []func(inside *net.TCPConn, outside link.Conn){
		func(in *net.TCPConn, out link.Conn) { in.Close(); io.Copy(io.Discard, out); out.Close() },
		func(in *net.TCPConn, out link.Conn) { out.Close(); io.Copy(io.Discard, in); in.Close() },
		func(in *net.TCPConn, out link.Conn) { out.Reset(); in.Close() },
		func(in *net.TCPConn, out link.Conn) {
			in.SetLinger(0)
			in.Close()
			out.Read(make([]byte, 1))
			out.Close()
		},
		func(in *net.TCPConn, out link.Conn) { out.Close(); out.Reset(); in.Close() },
		func(in *net.TCPConn, out link.Conn) { in.Write([]byte("unread")); out.Close(); in.Close() },
		func(in *net.TCPConn, out link.Conn) { out.CloseWrite(); in.Close(); out.Close(); out.Close() },
	}
	for range 10 {
		for i, end := range ends {
			dial, err := m.Dialer(netip.AddrPortFrom(outside4, 80))
			if err != nil {
				t.Fatal(err)
			}
			dialled := make(chan *net.TCPConn)
			go func() {
				c, err := dial()
				if err != nil {
					t.Errorf("way %d: %v", i, err)
				}
				dialled <- c
			}()
			f, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			out, err := f.Accept()
			if err != nil {
				t.Fatal(err)
			}
			end(<-dialled, out)
		}
	}
	l.connections.mu.Lock()
	open, waiting := l.connections.open, len(l.connections.waiting)
	l.connections.mu.Unlock()
	if open != 0 || waiting != 0 {
		t.Errorf("%d connections are counted, %d wait, want none", open, waiting)
	}
	for until := time.Now().Add(2 * time.Minute); len(l.stack.RegisteredEndpoints()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d endpoints are left", len(l.stack.RegisteredEndpoints()))
		}
	}
}

// The wire may be taken down and come back.
func TestInterfaceDown(t *testing.T) {
	m := overSocket(t, os.Getuid())
	if err := m.Ping(t, link.Host4); err != nil {
		t.Fatal(err)
	}
	fd, err := m.Inside.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, up := range []bool{false, true, false, true} {
		r, err := unix.NewIfreq(farName)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, r); err != nil {
			t.Fatal(err)
		}
		r.SetUint16(r.Uint16() &^ unix.IFF_UP)
		if up {
			r.SetUint16(r.Uint16() | unix.IFF_UP)
		}
		if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r); err != nil {
			t.Fatal(err)
		}
	}
	// The kernel inside turns its side on again in its own time: it is TCP that tries
	// until it gets through.
	go m.Dial(netip.AddrPortFrom(outside4, 80))
	f, err := m.Link.Accept()
	if err != nil {
		t.Fatal(err)
	}
	f.Refuse()
}

// TestThousands holds connections open and says what they cost.
func TestThousands(t *testing.T) {
	const thousands = 2000
	m := overSocket(t, linktest.Users()[0])
	heap := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapInuse + s.StackInuse
	}
	before := heap()
	var outside, inside []net.Conn
	var both sync.WaitGroup
	both.Go(func() {
		for range thousands {
			f, err := m.Link.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			c, err := f.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			outside = append(outside, c)
		}
	})
	both.Go(func() {
		for i := range thousands {
			c, err := m.Dial(netip.AddrPortFrom(outside4, uint16(1000+i)))
			if err != nil {
				t.Errorf("connection %d: %v", i, err)
				return
			}
			inside = append(inside, c)
		}
	})
	both.Wait()
	if t.Failed() {
		return
	}
	t.Logf("%d bytes for each of %d connections, both ends", (heap()-before)/thousands, thousands)
	for i, c := range inside {
		c.Write([]byte("x"))
		outside[i].Read(make([]byte, 1))
		if _, err := outside[i].Write([]byte("y")); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		c.Close()
		outside[i].Close()
	}
}

package link_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/link/linktest"
)

func TestMain(m *testing.M) {
	linktest.Main(m, map[string]linktest.Prepare{
		"kernel": link.Prepare,
		"packets": func() ([]*os.File, error) {
			f, err := link.PreparePackets()
			return []*os.File{f}, err
		},
	})
}

// start makes a machine with a link of a kind.
func start(t testing.TB, kind string, uid int) linktest.Machine {
	t.Helper()
	inside := linktest.NewNamespace(t, uid, kind)
	var l link.Link
	var err error
	if kind == "kernel" {
		l, err = link.Open(inside.Files)
	} else {
		l, err = link.OpenPackets(inside.Files[0])
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return linktest.Machine{Link: l, Inside: inside}
}

func TestLink(t *testing.T) {
	for _, kind := range []string{"kernel", "packets"} {
		for _, uid := range linktest.Users() {
			t.Run(fmt.Sprintf("%s/uid=%d", kind, uid), func(t *testing.T) {
				linktest.Run(t, func(t *testing.T) linktest.Machine { return start(t, kind, uid) })
			})
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	if _, err := link.Open(nil); err == nil {
		t.Error("a link without sockets was opened")
	}
}

// connect makes a connection through a link.
func connect(t *testing.T, m linktest.Machine, to netip.AddrPort) (inside *net.TCPConn, outside link.Conn) {
	t.Helper()
	dial, err := m.Dialer(to)
	if err != nil {
		t.Fatal(err)
	}
	dialled := make(chan *net.TCPConn, 1)
	go func() {
		c, err := dial()
		if err != nil {
			t.Error(err)
		}
		dialled <- c
	}()
	f, err := m.Link.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if outside, err = f.Accept(); err != nil {
		t.Fatal(err)
	}
	return <-dialled, outside
}

// What was written to a program that does not read arrives though the gateway has closed the
// connection, and a connection that was reset is gone.
func TestPacketsDepart(t *testing.T) {
	m := start(t, "packets", linktest.Users()[0])
	to := netip.MustParseAddrPort("192.0.2.7:80")
	in, out := connect(t, m, to)
	defer in.Close()
	out.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	n, err := out.Write(make([]byte, 64<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("writing to a program that does not read: %v", err)
	}
	out.Close()
	if got, err := io.Copy(io.Discard, in); err != nil || got != int64(n) {
		t.Errorf("the program read %d bytes of %d: %v", got, n, err)
	}
	in, out = connect(t, m, to)
	defer in.Close()
	out.Close()
	out.Reset()
	if _, err := out.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("reading after a reset: %v", err)
	}
}

// However many connections there are, all of them work, and one too many is refused.
func TestPacketsThousands(t *testing.T) {
	m := start(t, "packets", linktest.Users()[0])
	const thousands = 1500
	for i := range thousands {
		in, out := connect(t, m, netip.AddrPortFrom(netip.MustParseAddr("192.0.2.7"), uint16(1000+i)))
		if in == nil {
			t.Fatalf("connection %d was refused", i)
		}
		defer in.Close()
		defer out.Close()
		in.Write([]byte("x"))
		if n, err := out.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
}

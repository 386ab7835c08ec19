package packet

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/link/linktest"
)

// A machine opens connections, lets their buffers fill up, and never reads, while the
// gateway closes them: what is held for them has bounds.
func TestDeparturesWithoutReader(t *testing.T) {
	m := overSocket(t, linktest.Users()[0])
	l := m.Link.(*Link)
	connect := func() (*net.TCPConn, link.Conn) {
		dial, err := m.Dialer(netip.AddrPortFrom(outside4, 80))
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
		f, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		out, err := f.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return <-dialled, out
	}
	const full = 64 // more than the bytes allowed, at a buffer of 1 MB
	var inside []*net.TCPConn
	for range full {
		in, out := connect()
		if in == nil {
			return
		}
		defer in.Close()
		inside = append(inside, in)
		for sent := 0; sent < 1<<20; { // again if time passed before anything was sent
			out.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
			n, _ := out.Write(make([]byte, 8<<20))
			sent += n
		}
		out.Close()
	}
	if n := len(l.stack.RegisteredEndpoints()); n >= full {
		t.Errorf("%d endpoints are held", n)
	}
	// The first has been given up, the last has not.
	if _, err := io.Copy(io.Discard, inside[0]); err == nil {
		t.Error("the first connection was not reset")
	}
	if n, err := io.Copy(io.Discard, inside[full-1]); err != nil || n == 0 {
		t.Errorf("the last connection ended after %d bytes: %v", n, err)
	}
}

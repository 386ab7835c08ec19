package gateway

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPorts: connections are made from the lower half of the ports, so that the host keeps some of its own
// to every address, however many a sandbox closes.
func TestPorts(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	last := portRange() >> 16
	upper := func(dial func(context.Context, string, netip.AddrPort) (net.Conn, error)) (n int) {
		for i := range 50 { // ports to one address follow one another
			to := netip.AddrFrom4([4]byte{127, 0, 1, byte(i)})
			c, err := dial(context.Background(), "tcp", netip.AddrPortFrom(to, port))
			if err != nil {
				t.Fatal(err)
			}
			if c.LocalAddr().(*net.TCPAddr).Port > last {
				n++
			}
			c.Close()
		}
		return n
	}
	free := upper(func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, to.String())
	})
	if free == 0 {
		t.Fatal("the host connects from the lower half only")
	}
	if n := upper(dial); n > 0 {
		if fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
			defer unix.Close(fd)
			if unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_LOCAL_PORT_RANGE, 0) == unix.ENOPROTOOPT {
				t.Skip("this kernel cannot choose the ports of a socket")
			}
		}
		t.Errorf("%d of 50 connections are from the upper half, of the host's %d", n, free)
	}
}

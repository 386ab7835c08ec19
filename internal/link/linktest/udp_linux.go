package linktest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A datagram is what ReadDatagram returned.
type datagram struct {
	payload  []byte
	from, to netip.AddrPort
	err      error
}

// receive reads the next datagram that comes out of the machine.
func (m Machine) receive(t testing.TB, size int) datagram {
	t.Helper()
	got := make(chan datagram, 1)
	go func() {
		b := make([]byte, size)
		n, from, to, err := m.Link.ReadDatagram(b)
		got <- datagram{b[:n], from, to, err}
	}()
	select {
	case d := <-got:
		if d.err != nil {
			t.Fatalf("ReadDatagram: %v", d.err)
		}
		return d
	case <-time.After(patience):
		t.Fatal("no datagram arrived")
		return datagram{}
	}
}

func testDatagrams(t *testing.T, m Machine) {
	for _, to := range destinations {
		inside := m.packetConn(t, to.Addr(), unix.SOCK_DGRAM, 0)
		if _, err := inside.WriteTo([]byte("question"), net.UDPAddrFromAddrPort(to)); err != nil {
			t.Fatalf("send to %s: %v", to, err)
		}
		d := m.receive(t, 100)
		if string(d.payload) != "question" || d.to != to {
			t.Fatalf("datagram %q to %s, want the question to %s", d.payload, d.to, to)
		}
		if want := addrPort(inside.LocalAddr()).Port(); d.from.Port() != want {
			t.Errorf("datagram from %s, want port %d", d.from, want)
		}
		if err := m.Link.WriteDatagram([]byte("answer"), to, d.from); err != nil {
			t.Fatalf("WriteDatagram from %s to %s: %v", to, d.from, err)
		}
		b := make([]byte, 100)
		n, from, err := inside.ReadFrom(b)
		if err != nil || string(b[:n]) != "answer" {
			t.Fatalf("read %q and %v, want the answer", b[:n], err)
		}
		if addrPort(from) != to {
			t.Errorf("the answer is from %s, want %s", from, to)
		}
	}
}

func testDatagramSizes(t *testing.T, m Machine) {
	each(t, func(t *testing.T, to netip.AddrPort) {
		// Connected: such a socket takes answers from that address only.
		inside := m.connected(t, to, unix.SOCK_DGRAM, 0)
		for _, size := range []int{0, 1, 1400, 9000, 65000} {
			want := bytes.Repeat([]byte{byte(size)}, size)
			if _, err := inside.Write(want); err != nil {
				t.Fatalf("send %d bytes: %v", size, err)
			}
			d := m.receive(t, 70000)
			if !bytes.Equal(d.payload, want) {
				t.Fatalf("received %d bytes, want the %d that were sent", len(d.payload), size)
			}
			for i := range want {
				want[i]++
			}
			if err := m.Link.WriteDatagram(want, d.to, d.from); err != nil {
				t.Fatalf("WriteDatagram of %d bytes: %v", size, err)
			}
			b := make([]byte, 70000)
			n, err := inside.Read(b)
			if err != nil || !bytes.Equal(b[:n], want) {
				t.Fatalf("the program received %d bytes and %v, want the %d that were sent", n, err, size)
			}
		}
	})
}

func testDatagramCut(t *testing.T, m Machine) {
	inside := m.connected(t, families[0], unix.SOCK_DGRAM, 0)
	inside.Write([]byte("123456789"))
	inside.Write([]byte("abc"))
	if d := m.receive(t, 5); string(d.payload) != "12345" {
		t.Errorf("received %q, want the first five bytes", d.payload)
	}
	if d := m.receive(t, 5); string(d.payload) != "abc" {
		t.Errorf("received %q, want the next datagram", d.payload)
	}
}

func testRefuseDatagram(t *testing.T, m Machine) {
	each(t, func(t *testing.T, to netip.AddrPort) {
		inside := m.connected(t, to, unix.SOCK_DGRAM, 0)
		other := m.connected(t, netip.AddrPortFrom(to.Addr(), to.Port()+1), unix.SOCK_DGRAM, 0)
		inside.Write([]byte("anybody there?"))
		d := m.receive(t, 100)
		if err := m.Link.RefuseDatagram(d.from, d.to); err != nil {
			t.Fatal(err)
		}
		if n, err := inside.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("the program read %d and %v, want connection refused", n, err)
		}
		// It concerns that socket only.
		other.Write([]byte("and here?"))
		d = m.receive(t, 100)
		m.Link.WriteDatagram([]byte("yes"), d.to, d.from)
		b := make([]byte, 10)
		if n, err := other.Read(b); err != nil || string(b[:n]) != "yes" {
			t.Errorf("another socket read %q and %v, want yes", b[:n], err)
		}
	})
}

// testDatagramMany asks many destinations from one socket, as a resolver or a peer to
// peer program does, and gets each answer from the one that was asked.
func testDatagramMany(t *testing.T, m Machine) {
	each(t, func(t *testing.T, to netip.AddrPort) {
		inside := m.packetConn(t, to.Addr(), unix.SOCK_DGRAM, 0)
		a := to.Addr()
		for i := range 100 {
			to := netip.AddrPortFrom(a, uint16(5000+i))
			inside.WriteTo(fmt.Append(nil, to), net.UDPAddrFromAddrPort(to))
			d := m.receive(t, 100)
			if string(d.payload) != to.String() || d.to != to {
				t.Fatalf("datagram %q to %s, want %s", d.payload, d.to, to)
			}
			m.Link.WriteDatagram(d.payload, d.to, d.from)
			b := make([]byte, 100)
			n, from, err := inside.ReadFrom(b)
			if err != nil || string(b[:n]) != to.String() || addrPort(from) != to {
				t.Fatalf("answer %q from %v (%v), want %s", b[:n], from, err, to)
			}
			a = a.Next()
		}
	})
}

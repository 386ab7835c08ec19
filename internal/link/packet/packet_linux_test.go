package packet

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/cofferhq/coffer/internal/link/linktest"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	linktest.Main(m, map[string]linktest.Prepare{
		"veth": func() ([]*os.File, error) {
			f, err := Prepare()
			return []*os.File{f}, err
		},
		"tap":            func() ([]*os.File, error) { return prepareTAP(smallMTU, 0) },
		"tap vnet":       func() ([]*os.File, error) { return prepareTAP(smallMTU, unix.IFF_VNET_HDR) },
		"large tap vnet": func() ([]*os.File, error) { return prepareTAP(MTU, unix.IFF_VNET_HDR) },
	})
}

// users runs a test as every user there is.
func users(t *testing.T, test func(t *testing.T, uid int)) {
	for _, uid := range linktest.Users() {
		t.Run(fmt.Sprintf("uid=%d", uid), func(t *testing.T) { test(t, uid) })
	}
}

func overSocket(t testing.TB, uid int, o Options) linktest.Machine {
	t.Helper()
	n := linktest.NewNamespace(t, uid, "veth")
	l, err := NewSocket(n.Files[0], o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return linktest.Machine{Link: l, Inside: n}
}

func hasTAP() bool {
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err == nil {
		f.Close()
	}
	return err == nil
}

func overTAP(t testing.TB, uid int, kind string, o Options) linktest.Machine {
	t.Helper()
	n := linktest.NewNamespace(t, uid, kind)
	l, err := NewTAP(n.Files[0], o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return linktest.Machine{Link: l, Inside: n}
}

// overStream is a link over a stream. What QEMU does between a virtual network card
// and the stream, a goroutine does between a packet socket and the stream.
func overStream(t testing.TB, uid int, o Options) linktest.Machine {
	t.Helper()
	n := linktest.NewNamespace(t, uid, "veth")
	card, err := pollable(n.Files[0])
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := streamPair(t)
	var pumps sync.WaitGroup
	pumps.Go(func() { cardToStream(card, theirs) })
	pumps.Go(func() { streamToCard(theirs, card) })
	l, err := NewStream(ours, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		card.Close()
		pumps.Wait()
	})
	return linktest.Machine{Link: l, Inside: n}
}

func streamPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "stream")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return ends[0], ends[1]
}

func cardToStream(card io.Reader, stream net.Conn) {
	b := make([]byte, 4+maxFrame)
	for {
		n, err := card.Read(b[4:])
		if err != nil {
			return
		}
		binary.BigEndian.PutUint32(b, uint32(n))
		if _, err := stream.Write(b[:4+n]); err != nil {
			return
		}
	}
}

func streamToCard(stream io.Reader, card io.Writer) {
	r := bufio.NewReaderSize(stream, 256<<10)
	b := make([]byte, maxFrame)
	for {
		var size uint32
		if err := binary.Read(r, binary.BigEndian, &size); err != nil || size > maxFrame {
			return
		}
		if _, err := io.ReadFull(r, b[:size]); err != nil {
			return
		}
		card.Write(b[:size])
	}
}

// prepareTAP is Prepare with a TAP.
func prepareTAP(mtu int, flags uint16) ([]*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	r, err := unix.NewIfreq(nearName)
	if err != nil {
		return nil, err
	}
	r.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | flags)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, r); err != nil {
		return nil, err
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	near, err := h.LinkByName(nearName)
	if err != nil {
		return nil, err
	}
	if err := h.LinkSetMTU(near, mtu); err != nil {
		return nil, err
	}
	return []*os.File{os.NewFile(uintptr(fd), "tap")}, configure(h, near)
}

// smallMTU is what the TAPs of these tests have, so that large datagrams are cut into
// fragments, in both directions, and large segments by whoever sends them.
const smallMTU = 1500

func TestSocket(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		linktest.Run(t, func(t *testing.T) linktest.Machine { return overSocket(t, uid, Options{}) })
	})
}

func TestStream(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		linktest.Run(t, func(t *testing.T) linktest.Machine { return overStream(t, uid, Options{}) })
	})
}

func TestTAP(t *testing.T) {
	if !hasTAP() {
		t.Skip("this user may not make a TAP")
	}
	for _, kind := range []string{"tap", "tap vnet"} {
		t.Run(kind, func(t *testing.T) {
			linktest.Run(t, func(t *testing.T) linktest.Machine {
				return overTAP(t, os.Getuid(), kind, Options{MTU: smallMTU})
			})
		})
	}
}

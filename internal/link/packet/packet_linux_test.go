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
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	linktest.Main(m, map[string]linktest.Prepare{
		"veth": func() ([]*os.File, error) {
			f, err := Prepare()
			return []*os.File{f}, err
		},
	})
}

// users runs a test as every user there is.
func users(t *testing.T, test func(t *testing.T, uid int)) {
	for _, uid := range linktest.Users() {
		t.Run(fmt.Sprintf("uid=%d", uid), func(t *testing.T) { test(t, uid) })
	}
}

func overSocket(t testing.TB, uid int) linktest.Machine {
	t.Helper()
	n := linktest.NewNamespace(t, uid, "veth")
	l, err := NewSocket(n.Files[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return linktest.Machine{Link: l, Inside: n}
}

// overStream is a link over a stream. What QEMU does between a virtual network card
// and the stream, a goroutine does between a packet socket and the stream.
func overStream(t testing.TB, uid int) linktest.Machine {
	t.Helper()
	n := linktest.NewNamespace(t, uid, "veth")
	d, err := openDevice(n.Files[0], func(int) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	card := d.file
	ours, theirs := streamPair(t)
	var pumps sync.WaitGroup
	pumps.Go(func() { cardToStream(card, theirs) })
	pumps.Go(func() { streamToCard(theirs, card) })
	l, err := NewStream(ours)
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

func TestSocket(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		linktest.Run(t, func(t *testing.T) linktest.Machine { return overSocket(t, uid) })
	})
}

func TestStream(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		linktest.Run(t, func(t *testing.T) linktest.Machine { return overStream(t, uid) })
	})
}

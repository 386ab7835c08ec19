package packet

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/cofferhq/coffer/internal/link"
)

func TestStreamFrames(t *testing.T) {
	ours, theirs := net.Pipe()
	l, err := NewStream(ours)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := echoTo(link.Host4)
	go theirs.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(f))), f...))
	var size uint32
	if err := binary.Read(theirs, binary.BigEndian, &size); err != nil || int(size) != len(f) {
		t.Fatalf("an answer of %d bytes and %v, want %d", size, err, len(f))
	}
	got := make([]byte, size)
	if _, err := io.ReadFull(theirs, got); err != nil {
		t.Fatal(err)
	}
	if m := checked(t, got, link.Host4, link.Own4); m[0] != 0 {
		t.Errorf("got ICMP %d, want an echo reply", m[0])
	}
}

// A machine that stops, or talks nonsense, ends the link.
func TestStreamEnds(t *testing.T) {
	for name, end := range map[string]func(net.Conn){
		"closed":              func(c net.Conn) { c.Close() },
		"a length beyond all": func(c net.Conn) { c.Write([]byte{0, 1, 0, 14}) },
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			l, err := NewStream(ours)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go end(theirs)
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Accept: %v, want net.ErrClosed", err)
			}
		})
	}
}

// A machine that does not read loses frames, and keeps nobody from closing.
func TestStreamNobodyReads(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	l, err := NewStream(ours)
	if err != nil {
		t.Fatal(err)
	}
	from, to := netip.AddrPortFrom(outside4, 53), netip.AddrPortFrom(link.Own4, 1000)
	lost := 0
	for range 5000 {
		if l.WriteDatagram(make([]byte, 10000), from, to) != nil {
			lost++
		}
	}
	if lost == 0 {
		t.Error("5000 frames of 10 kB were taken though nobody reads")
	}
	l.Close()
}

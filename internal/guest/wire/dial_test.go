package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// listen is the other end of a Dial.
func listen(t *testing.T) (Dial, net.Listener) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return Dial(path), l
}

func TestSocketCarriesBytes(t *testing.T) {
	d, l := listen(t)
	go func() {
		c, err := l.Accept()
		if err == nil {
			io.Copy(c, c)
			c.Close()
		}
	}()
	s, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := make([]byte, 1<<20)
	go s.Write(want)
	if got, err := io.ReadFull(s, make([]byte, len(want))); got != len(want) || err != nil {
		t.Errorf("%d bytes came back, %v", got, err)
	}
}

// To close a socket wakes who reads from it, although the reader is in the kernel.
func TestSocketCloseEndsARead(t *testing.T) {
	d, l := listen(t)
	s, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte{1})
	started, ended := make(chan struct{}), make(chan error)
	go func() {
		s.Read(make([]byte, 1))
		close(started)
		_, err := s.Read(make([]byte, 1))
		ended <- err
	}()
	<-started
	s.Close()
	if err := <-ended; err == nil {
		t.Error("the read did not end with an error")
	}
}

func TestSocketTimeout(t *testing.T) {
	d, _ := listen(t)
	s, err := d.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Timeout(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}

func TestDialNobody(t *testing.T) {
	if _, err := Dial(filepath.Join(t.TempDir(), "none")).Open(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

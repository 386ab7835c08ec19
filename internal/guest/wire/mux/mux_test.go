package mux

import (
	"bytes"
	"io"
	"net"
	"testing"
)

// counted remembers the pieces in which bytes were written.
type counted struct {
	net.Conn
	pieces [][]byte
}

func (c *counted) Write(p []byte) (int, error) {
	c.pieces = append(c.pieces, bytes.Clone(p))
	return len(p), nil
}

// head is a header of yamux.
func head(kind, flags, length byte) []byte {
	return []byte{0, kind, 0, flags, 0, 0, 0, 1, 0, 0, 0, length}
}

func TestJoinedHoldsBackOnlyWhatIsFollowed(t *testing.T) {
	var out counted
	j := &joined{Conn: &out}
	body := head(typeData, flagSYN, 9) // twelve bytes that look like a header
	for _, step := range []struct {
		name string
		p    []byte
		held bool
	}{
		{"opening", head(typeWindow, flagSYN, 5), true},
		{"data", head(typeData, 0, headSize), true},
		{"body", body, false},
		{"window", head(typeWindow, 0, 5), false},
		{"acknowledgement", head(typeWindow, 2, 5), false},
		{"end", head(typeData, 4, 0), false},
		{"ping", head(2, flagSYN, 1), false},
		{"opening again", head(typeWindow, flagSYN, 5), true},
		{"ping behind it", head(2, 0, 1), false},
	} {
		if n, err := j.Write(step.p); n != len(step.p) || err != nil {
			t.Errorf("%s: %d, %v", step.name, n, err)
		}
		if held := len(j.held) > 0; held != step.held {
			t.Errorf("%s: held back is %v", step.name, held)
		}
	}
	var all []byte
	for _, p := range out.pieces {
		all = append(all, p...)
	}
	if want := 9 * headSize; len(all) != want {
		t.Errorf("%d bytes of %d arrived", len(all), want)
	}
	if !bytes.Equal(all[2*headSize:3*headSize], body) {
		t.Error("the body is not where it belongs")
	}
}

// Both directions of many streams at once, with bodies of all sizes.
func TestStreams(t *testing.T) {
	a, b := net.Pipe()
	client, err := Client(a)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := Server(b)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			s, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(s, s)
				s.Close()
			}()
		}
	}()
	done := make(chan error)
	sizes := []int{1, 11, 12, 13, 4096, 1 << 20}
	for _, size := range sizes {
		go func() {
			done <- echo(client, bytes.Repeat([]byte{byte(size)}, size))
		}()
	}
	for range sizes {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func echo(client *Session, want []byte) error {
	s, err := client.Open()
	if err != nil {
		return err
	}
	go func() {
		s.Write(want)
		s.Close() // this direction
	}()
	got, err := io.ReadAll(s)
	if err == nil && !bytes.Equal(got, want) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

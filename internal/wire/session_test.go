package wire

import (
	"bytes"
	"io"
	"net"
	"testing"
)

// Both directions of many streams at once, with bodies of all sizes.
func TestStreams(t *testing.T) {
	a, b := net.Pipe()
	client, err := NewClient(a)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := NewServer(b)
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

package linktest

import (
	"errors"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func testClose(t *testing.T, m Machine) {
	// A flow that nobody has decided on.
	dialled := make(chan error, 1)
	go func() {
		c, err := m.Dial(families[0])
		if err == nil {
			defer c.Close()
			_, err = c.Read(make([]byte, 1))
		}
		dialled <- err
	}()
	pending, err := m.Link.Accept()
	if err != nil {
		t.Fatal(err)
	}
	inside := m.connected(t, families[1], unix.SOCK_DGRAM, 0)
	inside.Write([]byte("x"))
	d := m.receive(t, 10)

	results := make(chan error)
	for range 3 {
		go func() {
			_, err := m.Link.Accept()
			results <- err
		}()
		go func() {
			_, _, _, err := m.Link.ReadDatagram(make([]byte, 10))
			results <- err
		}()
	}
	closed := make(chan error)
	for range 2 { // twice does no harm
		go func() { closed <- m.Link.Close() }()
	}
	for range 6 {
		select {
		case err := <-results:
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("got %v, want net.ErrClosed", err)
			}
		case <-time.After(patience):
			t.Fatal("Close has not woken everybody")
		}
	}
	for range 2 {
		<-closed
	}
	if _, err := m.Link.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: %v, want net.ErrClosed", err)
	}
	if err := m.Link.WriteDatagram(nil, d.to, d.from); !errors.Is(err, net.ErrClosed) {
		t.Errorf("WriteDatagram after Close: %v, want net.ErrClosed", err)
	}
	if err := m.Link.RefuseDatagram(d.from, d.to); !errors.Is(err, net.ErrClosed) {
		t.Errorf("RefuseDatagram after Close: %v, want net.ErrClosed", err)
	}
	pending.Refuse()
	if err := <-dialled; !refused(err) {
		t.Errorf("the undecided program got %v, want a refusal", err)
	}
}

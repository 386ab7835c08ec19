package linktest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/link"
)

const bulk = 100 << 20

func testBulkUp(t *testing.T, m Machine) {
	flows := m.flows(t)
	each(t, func(t *testing.T, to netip.AddrPort) {
		inside, outside := m.pair(t, flows, to)
		transfer(t, inside, outside, bulk)
	})
}

func testBulkDown(t *testing.T, m Machine) {
	flows := m.flows(t)
	each(t, func(t *testing.T, to netip.AddrPort) {
		inside, outside := m.pair(t, flows, to)
		transfer(t, outside, inside, bulk)
	})
}

// transfer sends size bytes of noise and compares what arrives.
func transfer(t testing.TB, from, to halfCloser, size int) {
	t.Helper()
	type result struct {
		sum [sha256.Size]byte
		err error
	}
	sent := make(chan result, 1)
	go func() {
		h := sha256.New()
		err := send(from, h, size)
		if err == nil {
			err = from.CloseWrite()
		}
		sent <- result{[sha256.Size]byte(h.Sum(nil)), err}
	}()
	h := sha256.New()
	n, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{to}, make([]byte, 256<<10))
	if err != nil || n != int64(size) {
		t.Errorf("received %d bytes of %d: %v", n, size, err)
	}
	s := <-sent
	if s.err != nil {
		t.Fatalf("send: %v", s.err)
	}
	if !bytes.Equal(s.sum[:], h.Sum(nil)) {
		t.Error("what arrived is not what was sent")
	}
}

// send writes noise, in pieces of many sizes.
func send(w io.Writer, h hash.Hash, size int) error {
	noise := rand.NewChaCha8([32]byte{1})
	b := make([]byte, 256<<10)
	noise.Read(b)
	for i := 0; size > 0; i++ {
		binary.NativeEndian.PutUint64(b, noise.Uint64())
		piece := b[:min(size, 1+i*7919%len(b))]
		h.Write(piece)
		if _, err := w.Write(piece); err != nil {
			return err
		}
		size -= len(piece)
	}
	return nil
}

func testSlowOutside(t *testing.T, m Machine) {
	flows := m.flows(t)
	inside, outside := m.pair(t, flows, families[0])
	backPressure(t, inside, outside)
}

func testSlowInside(t *testing.T, m Machine) {
	flows := m.flows(t)
	inside, outside := m.pair(t, flows, families[0])
	backPressure(t, outside, inside)
}

// backPressure writes until no more is taken, because nobody reads. What was taken is
// somewhere in memory: that has to be little. Then somebody reads, and all of it has
// to arrive.
func backPressure(t *testing.T, from, to halfCloser) {
	t.Helper()
	const tooMuch = 64 << 20
	b := make([]byte, 128<<10)
	taken := 0
	for taken < tooMuch {
		// A writer for whom nothing moves for so long is held up.
		from.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		n, err := from.Write(b)
		taken += n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if taken >= tooMuch {
		t.Fatalf("%d bytes were taken though nobody reads", taken)
	}
	t.Logf("%d kB were taken", taken>>10)
	from.SetWriteDeadline(time.Now().Add(patience))
	if err := from.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, to); n != int64(taken) || err != nil {
		t.Errorf("%d bytes arrived of %d: %v", n, taken, err)
	}
}

const many = 500

// testMany holds connections open all at once, then uses every one of them.
func testMany(t *testing.T, m Machine) {
	flows := m.flows(t)
	var serving sync.WaitGroup
	defer serving.Wait()
	serving.Go(func() {
		for range many {
			f := <-flows
			serving.Go(func() { greet(t, f) })
		}
	})
	conns := make([]*net.TCPConn, many)
	var dialling sync.WaitGroup
	for i := range conns {
		dialling.Go(func() {
			c, err := m.Dial(netip.AddrPortFrom(families[i%2].Addr(), uint16(1000+i)))
			if err != nil {
				t.Errorf("connection %d: %v", i, err)
				return
			}
			conns[i] = c
		})
	}
	dialling.Wait()
	for i, c := range conns {
		if c == nil {
			continue
		}
		fmt.Fprintf(c, "hello from %d\n", i)
		c.CloseWrite()
	}
	for i, c := range conns {
		if c == nil {
			continue
		}
		want := fmt.Sprintf("port %d: hello from %d\n", 1000+i, i)
		if got, err := io.ReadAll(c); string(got) != want || err != nil {
			t.Errorf("connection %d: read %q and %v, want %q", i, got, err, want)
		}
		c.Close()
	}
}

// greet sends back what it is sent, and which port it was sent to.
func greet(t *testing.T, f link.Flow) {
	c, err := f.Accept()
	if err != nil {
		t.Errorf("accept the flow to %s: %v", f.Destination(), err)
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	b, err := io.ReadAll(c)
	if err != nil {
		t.Errorf("flow to %s: %v", f.Destination(), err)
	}
	fmt.Fprintf(c, "port %d: %s", f.Destination().Port(), b)
}

package wire

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// pair is two ends of a session.
func pair(t testing.TB) (client, server *Session) {
	t.Helper()
	a, b := tcpPair(t)
	client, err := NewClient(a)
	if err != nil {
		t.Fatal(err)
	}
	if server, err = NewServer(b); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// streamPair is two ends of a stream.
func streamPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	client, server := pair(t)
	a, err := client.Open()
	if err != nil {
		t.Fatal(err)
	}
	if b, err = server.Accept(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// tcpPair is two ends of a connection.
func tcpPair(t testing.TB) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); d.Close() })
	return c.(*net.TCPConn), d.(*net.TCPConn)
}

// carried is a connection that a stream carries: what is written to one end comes out
// of the other. done has the results of both relays.
func carried(t testing.TB) (near, far *net.TCPConn, done chan error) {
	near, in := tcpPair(t)
	out, far := tcpPair(t)
	a, b := streamPair(t)
	done = make(chan error, 2)
	go func() { done <- Relay(in, a) }()
	go func() { done <- Relay(out, b) }()
	return near, far, done
}

func TestRelayBothWays(t *testing.T) {
	near, far, done := carried(t)
	up, down := make([]byte, 5<<20), make([]byte, 3<<20)
	rand.Read(up)
	rand.Read(down)
	var all sync.WaitGroup
	check := func(c *net.TCPConn, out, want []byte) {
		all.Go(func() {
			c.Write(out)
			c.CloseWrite()
		})
		all.Go(func() {
			if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes came (%v), want %d", len(got), err, len(want))
			}
		})
	}
	check(near, up, down)
	check(far, down, up)
	all.Wait()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// One direction may end long before the other.
func TestRelayHalfClose(t *testing.T) {
	near, far, done := carried(t)
	near.Write([]byte("question"))
	near.CloseWrite()
	if got, err := io.ReadAll(far); err != nil || string(got) != "question" {
		t.Fatalf("got %q, %v", got, err)
	}
	for _, word := range []string{"a long ", "answer"} {
		far.Write([]byte(word))
		buf := make([]byte, len(word))
		if _, err := io.ReadFull(near, buf); err != nil || string(buf) != word {
			t.Fatalf("got %q, %v", buf, err)
		}
	}
	select {
	case err := <-done:
		t.Fatalf("a relay ended early: %v", err)
	default:
	}
	far.Close()
	if n, err := near.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("the end was not told: %d, %v", n, err)
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A connection that breaks breaks at the other end too, also when a direction had
// ended, and when nobody is reading.
func TestRelayReset(t *testing.T) {
	for name, before := range map[string]func(near, far *net.TCPConn){
		"at once":    func(near, far *net.TCPConn) {},
		"half ended": func(near, far *net.TCPConn) { near.CloseWrite(); io.ReadAll(far) },
		"stalled":    func(near, far *net.TCPConn) { go far.Write(make([]byte, 64<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			near, far, done := carried(t)
			before(near, far)
			near.SetLinger(0)
			near.Close()
			// It writes until it is told.
			for {
				if _, err := far.Write(make([]byte, 1<<16)); err != nil {
					break
				}
			}
			for range 2 {
				if err := <-done; err == nil {
					t.Error("a relay took it for a proper end")
				}
			}
		})
	}
}

// A reader that stalls stalls the writer: what lies in between is bounded.
func TestRelayBackPressure(t *testing.T) {
	near, in := tcpPair(t)
	a, b := streamPair(t)
	go Relay(in, a)
	gate := make(chan struct{})
	out, far := tcpPair(t)
	go Relay(out, &slow{Conn: b, gate: gate})
	// Nothing is read from the stream: the writer gets no further than its windows.
	const most = 64 << 20
	near.SetWriteDeadline(time.Now().Add(time.Second))
	n, err := near.Write(make([]byte, most))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d of %d bytes went out although nobody read: %v", n, most, err)
	}
	// And then it does.
	close(gate)
	near.CloseWrite()
	if got, err := io.Copy(io.Discard, far); err != nil || got != int64(n) {
		t.Errorf("%d of %d bytes came: %v", got, n, err)
	}
}

// slow is a stream that is read only after a while.
type slow struct {
	net.Conn
	gate chan struct{}
}

func (s *slow) Read(p []byte) (int, error) {
	<-s.gate
	return s.Conn.Read(p)
}

// When the session dies, so does what it carried.
// chunks is a connection from which come some bytes at a time, and then the end.
type chunks struct {
	net.Conn
	sizes []int
	ended chan struct{}
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.sizes) == 0 {
		close(c.ended)
		return 0, io.EOF
	}
	n := c.sizes[0]
	c.sizes = c.sizes[1:]
	return n, nil
}

// Who does not read, and leaves, is not waited for: not even if there was no room left but
// to say that this is the end.
func TestRelayNoRoomToEnd(t *testing.T) {
	conn, _ := tcpPair(t)
	a, b := streamPair(t)
	from := &chunks{Conn: conn, ended: make(chan struct{})}
	left := int(config().MaxStreamWindowSize)
	for left > 0 {
		n := min(left, frameHead+relayChunk)
		from.sizes = append(from.sizes, n-frameHead)
		left -= n
	}
	done := make(chan error, 1)
	go func() { done <- Relay(from, a) }()
	<-from.ended
	if _, err := b.Write([]byte{Input, 0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	b.Close()
	select {
	case err := <-done:
		if err == nil {
			t.Error("it believes that all has arrived")
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for ever")
	}
}

func TestRelaySessionEnds(t *testing.T) {
	near, in := tcpPair(t)
	client, server := pair(t)
	a, err := client.Open()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- Relay(in, a) }()
	near.Write([]byte("hello"))
	server.Close()
	if err := <-done; err == nil {
		t.Error("no error")
	}
	if _, err := io.ReadAll(near); err == nil {
		t.Error("the connection ended as if all were well")
	}
}

// Whatever the other end sends, the connection gets only what came in proper frames.
func TestRelayRefuses(t *testing.T) {
	frame := func(kind byte, n uint32, body string) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{kind}, n), body...)
	}
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"kind":          {frame(Output, 2, "hi"), ""},
		"message":       {frame(Message, 2, "{}"), ""},
		"too long":      {frame(Input, MaxData+1, "hi"), ""},
		"huge":          {frame(Input, 1<<32-1, "hi"), ""},
		"cut short":     {frame(Input, 100, "hi"), "hi"},
		"no end":        {frame(Input, 2, "hi"), "hi"},
		"after the end": {append(frame(Input, 0, ""), frame(Input, 2, "hi")...), ""},
		"nothing":       {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			near, in := tcpPair(t)
			a, b := streamPair(t)
			go func() {
				b.Write(c.in)
				b.Close()
			}()
			if err := Relay(in, a); err == nil {
				t.Error("no error")
			}
			got, _ := io.ReadAll(near)
			if string(got) != c.want && string(got) != "" { // a reset may overtake bytes
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestDialTarget(t *testing.T) {
	client, server := pair(t)
	answer := func(v any) {
		c, err := server.Accept()
		if err != nil {
			return
		}
		var r Request
		if err := ReadMessage(c, MaxRequest, &r); err != nil || r.Op != OpDial || r.Dial == nil || r.Dial.Port != 80 {
			t.Errorf("got %+v, %v", r, err)
		}
		WriteMessage(c, v)
		c.Close()
	}
	for name, c := range map[string]struct {
		answer any
		want   string
	}{
		"yes":       {Event{Connected: true}, ""},
		"no":        {Event{Failure: &Failure{Message: "nobody listens"}}, "nobody listens"},
		"something": {Event{Credit: 5}, "malformed message: not an answer to a dial"},
	} {
		t.Run(name, func(t *testing.T) {
			go answer(c.answer)
			conn, err := DialTarget(client, Target{Port: 80}, time.Minute)
			if got := errorText(err); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			HangUp(conn)
		})
	}
	go server.Accept() // and says nothing
	if _, err := DialTarget(client, Target{Port: 80}, time.Millisecond); err == nil {
		t.Error("waited for an answer that did not come")
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Garbage on the stream ends the relay, without a panic, and nothing but the bodies of
// frames reaches the connection.
func FuzzRelay(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x02hi\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01x"))
	f.Add([]byte("\x00\xff\xff\xff\xff"))
	f.Add([]byte("m\x00\x00\x00\x02{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		conn := &scripted{}
		stream := &scripted{in: bytes.NewReader(b)}
		_ = Relay(conn, stream)
		if conn.out.Len() > len(b) {
			t.Errorf("%d bytes came out of %d", conn.out.Len(), len(b))
		}
	})
}

// scripted is a connection that says what it was given, and then nothing.
type scripted struct {
	net.Conn
	in  *bytes.Reader
	out bytes.Buffer
}

func (s *scripted) Read(p []byte) (int, error) {
	if s.in == nil {
		return 0, io.EOF
	}
	return s.in.Read(p)
}
func (s *scripted) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s *scripted) Close() error                { return nil }

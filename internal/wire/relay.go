package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// relayChunk is how much is read at once. Each connection has two buffers of it.
const relayChunk = 32 << 10

// errReset says that a connection ended before both directions had.
var errReset = errors.New("the connection was reset")

// DialTarget opens a stream that the other end connects with a target. What follows is
// for [Relay]. If no answer comes within patience, there is none.
//
// The stream is returned with an error as well, when there is one: to be hung up on.
func DialTarget(s *Session, t Target, patience time.Duration) (net.Conn, error) {
	c, err := s.Open()
	if err != nil {
		return nil, err
	}
	if err := WriteMessage(c, Request{Op: OpDial, Dial: &t}); err != nil {
		return c, err
	}
	c.SetReadDeadline(time.Now().Add(patience))
	e, err := Answer(c)
	if err == nil && !e.Connected {
		err = fmt.Errorf("%w: not an answer to a dial", ErrMessage)
	}
	c.SetReadDeadline(time.Time{})
	return c, err
}

// HangUp closes a stream and waits until the other end has done so too. Until then it
// takes up memory here, so whoever counts streams counts it.
func HangUp(c net.Conn) {
	if c == nil {
		return
	}
	c.Close()
	io.Copy(io.Discard, c)
}

// Relay carries a connection over a stream until it has ended, and closes both. It
// also waits until the other end has closed the stream, see [HangUp].
//
// A direction is a sequence of frames, of kind Input; an empty one says that no more
// comes, and the other direction goes on. A stream that is closed before both have
// ended means that the connection broke, and the other end breaks its own: that is
// more than yamux can say, whose streams have two ends like a connection but no reset.
// A reader that stalls stalls the writer, through the window of the stream.
func Relay(conn, stream net.Conn) error {
	r := &relay{conn: conn, stream: stream}
	sent := make(chan error, 1)
	go func() { sent <- r.watch(r.send()) }()
	err := errors.Join(r.watch(r.receive()), <-sent)
	conn.Close()
	HangUp(stream)
	return err
}

type relay struct {
	conn, stream net.Conn

	ending atomic.Int32 // directions whose end has been said, or is being said
	ended  atomic.Int32 // those of them for which that has succeeded
}

// end notes the end of a direction, which tell says to the other end. Whoever hears that may
// close the stream at once, and that must not look as if it came too early: so it is noted
// before. Nobody waits for tell, for which there may be no room. After the second end, the
// stream may go.
func (r *relay) end(tell func() error) error {
	r.ending.Add(1)
	if err := tell(); err != nil {
		return err
	}
	if r.ended.Add(1) == 2 {
		r.stream.Close()
	}
	return nil
}

// watch breaks the connection when one direction failed, so that the other ends too.
func (r *relay) watch(err error) error {
	if err != nil {
		Reset(r.conn)
		r.stream.Close()
	}
	return err
}

// Reset closes a connection so that the other side hears that it broke, if it is of a
// kind that can say so.
func Reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.Close()
}

// send reads the connection. Header and body go out in one piece, without a copy.
func (r *relay) send() error {
	buf := make([]byte, frameHead+relayChunk)
	for {
		n, err := r.conn.Read(buf[frameHead:])
		if err != nil && err != io.EOF {
			return err
		}
		buf[0] = Input
		binary.BigEndian.PutUint32(buf[1:], uint32(n))
		tell := func() error {
			_, err := r.stream.Write(buf[:frameHead+n])
			return err
		}
		switch {
		case n > 0: // the end will be said again, with nothing
			if err := tell(); err != nil {
				return err
			}
		case err == io.EOF:
			return r.end(tell)
		}
	}
}

// receive writes to the connection what comes from the stream. After the end of the
// direction it stays, to hear whether the stream breaks.
func (r *relay) receive() error {
	in := bufio.NewReaderSize(r.stream, relayChunk)
	for {
		n, err := header(in)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		if err := carry(r.conn, in, n); err != nil {
			return err
		}
	}
	if c, ok := r.conn.(interface{ CloseWrite() error }); ok {
		// It fails if the connection is gone altogether, which send will see.
		_ = c.CloseWrite()
	}
	_ = r.end(func() error { return nil })
	switch _, err := in.ReadByte(); {
	case err == nil:
		return fmt.Errorf("%w: something came after the end", ErrMessage)
	case r.ending.Load() < 2:
		return errReset
	}
	r.stream.Close() // and who is still saying the end says it to nobody
	return nil
}

// header reads how long the next frame is.
func header(in *bufio.Reader) (int, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, errReset
	}
	n := binary.BigEndian.Uint32(head[1:])
	if head[0] != Input || n > MaxData {
		return 0, fmt.Errorf("%w: a frame of kind %d with %d bytes in a connection", ErrMessage, head[0], n)
	}
	return int(n), nil
}

// carry writes n bytes as they come.
func carry(out io.Writer, in *bufio.Reader, n int) error {
	for n > 0 {
		if _, err := in.Peek(1); err != nil {
			return errReset
		}
		b, _ := in.Peek(min(n, in.Buffered()))
		if _, err := out.Write(b); err != nil {
			return err
		}
		in.Discard(len(b))
		n -= len(b)
	}
	return nil
}

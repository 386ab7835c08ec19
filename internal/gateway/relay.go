package gateway

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
)

// An idle connection keeps a small buffer in each direction. While bytes come faster than it
// takes, a pump borrows a large one: a packet of half a megabyte (see package link)
// takes a few reads and not hundreds. io.Copy would have either all connections keep
// large buffers or, with splice, two more descriptors for each direction.
const (
	smallBuffer = 2 << 10
	largeBuffer = 256 << 10
	maxLarge    = 128 // lent at once
)

var buffers = sync.Pool{New: func() any { b := make([]byte, largeBuffer); return &b }}

// errBudget says that a budget is used up.
var errBudget = errors.New("the budget is used up")

// A sideError is an error of one of the two connections of a pump.
type sideError struct {
	write bool
	error
}

func (e *sideError) Unwrap() error { return e.error }

// A pump carries bytes in one direction.
type pump struct {
	src, dst net.Conn
	count    *atomic.Int64
	take     func(n int) int    // says how many bytes the budget lets through, and charges them
	seen     func(first []byte) // is shown what passes
	large    chan struct{}
}

// run carries limit bytes, or all until the end if limit is negative. The end is no error
// unless it comes before the limit.
func (p *pump) run(limit int64) error {
	small := make([]byte, smallBuffer)
	var large *[]byte
	defer func() { p.giveBack(large) }()
	for limit != 0 {
		b := small
		if large != nil {
			b = *large
		}
		if limit > 0 && int64(len(b)) > limit {
			b = b[:limit]
		}
		n, err := p.src.Read(b)
		if n > 0 {
			if err := p.write(b[:n]); err != nil {
				return err
			}
			limit = max(limit-int64(n), min(limit, 0)) // stays negative
		}
		switch {
		case err == io.EOF && limit <= 0:
			return nil
		case err == io.EOF:
			return err
		case err != nil:
			return &sideError{false, err}
		case large == nil && n == smallBuffer:
			large = p.borrow()
		case large != nil && n < smallBuffer:
			p.giveBack(large)
			large = nil
		}
	}
	return nil
}

// borrow returns a large buffer, nil if there are too many.
func (p *pump) borrow() *[]byte {
	select {
	case p.large <- struct{}{}:
		return buffers.Get().(*[]byte)
	default:
		return nil
	}
}

func (p *pump) giveBack(b *[]byte) {
	if b != nil {
		buffers.Put(b)
		<-p.large
	}
}

// write charges the budget and writes.
func (p *pump) write(b []byte) error {
	if p.seen != nil {
		p.seen(b)
	}
	allowed := p.take(len(b))
	n, err := p.dst.Write(b[:allowed])
	p.count.Add(int64(n))
	if err != nil {
		return &sideError{true, err}
	}
	if allowed < len(b) {
		return errBudget
	}
	return nil
}

// upward carries bytes from the program to the server.
func (f *flow) upward() *pump {
	return &pump{src: f.client.Conn, dst: f.up, count: &f.sent, take: f.takeSent, large: f.g.large}
}

// downward carries bytes from the server to the program.
func (f *flow) downward() *pump {
	return &pump{src: f.up, dst: f.client.Conn, count: &f.received, take: f.takeReceived, seen: f.answered, large: f.g.large}
}

// send passes on the first bytes that were read ahead.
func (f *flow) send(n int) error {
	if n == 0 {
		return nil
	}
	err := f.upward().write(f.client.ahead[:n])
	f.client.drop(n)
	return err
}

// relay carries bytes both ways until both sides have ended.
func (f *flow) relay() *refusal {
	if r := f.ready(); r != nil {
		return r
	}
	err := f.send(len(f.client.ahead))
	if err == nil {
		err = f.upward().run(-1)
	}
	f.finish(err)
	return nil
}

// finish ends a flow of which nothing more goes up: the program has ended its side, or err.
func (f *flow) finish(err error) {
	var side *sideError
	switch {
	case err == nil:
		f.halved()
		if closeWrite(f.up) != nil {
			f.note("closed by the server")
		}
	case errors.Is(err, errBudget):
		f.exceed("upload")
	case errors.As(err, &side) && !side.write:
		f.end(reason("program", side.error))
	default:
		// The server listens no more. What it has said still goes to the program.
		f.halved()
		f.note(reason("server", err))
	}
	<-f.down
	f.note("closed by both sides")
}

// closeWrite says that nothing more will be written.
func closeWrite(c net.Conn) error {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}

// plain takes the addresses out of an error: the log has them, and programs inside need not.
func plain(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		err = op.Err
	}
	var call *os.SyscallError
	if errors.As(err, &call) {
		return call.Err
	}
	return err
}

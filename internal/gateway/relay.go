package gateway

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"github.com/cofferhq/coffer/internal/gateway/sniff"
)

// An idle connection keeps a small buffer in each direction. When bytes come faster than
// it takes, a lane borrows a large one, in which a packet of half a megabyte (see package
// link/kernel) takes a few reads and not hundreds.
const (
	smallBuffer = 2 << 10
	largeBuffer = 256 << 10
)

var buffers = sync.Pool{New: func() any { b := make([]byte, largeBuffer); return &b }}

// errBudget says that a budget is used up.
var errBudget = errors.New("the budget is used up")

// A sideError is an error of one of the two connections of a lane.
type sideError struct {
	write bool
	error
}

func (e *sideError) Unwrap() error { return e.error }

// A lane carries bytes in one direction.
type lane struct {
	src, dst net.Conn
	count    *atomic.Int64
	// take says how many of n bytes the budget lets through, and charges them.
	take func(n int) int
	// turn is asked after each read while it is set. If it says yes, the lane
	// ends and what was read is left in rest.
	turn  func() bool
	rest  []byte
	large loans
}

// errTurn says that a lane ended because its turn function said so.
var errTurn = errors.New("turn")

// run carries limit bytes, or all until the end if limit is negative. The end is no error
// unless it comes before the limit.
func (l *lane) run(limit int64) error {
	var small []byte
	for limit != 0 {
		if small == nil {
			small = make([]byte, smallBuffer)
		}
		n, err := l.step(small, &limit)
		if err == nil && n == len(small) {
			err = l.bulk(&limit)
		}
		if err == io.EOF && limit < 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// step reads once and writes that.
func (l *lane) step(b []byte, limit *int64) (int, error) {
	if *limit >= 0 && int64(len(b)) > *limit {
		b = b[:*limit]
	}
	n, err := l.src.Read(b)
	if n > 0 {
		if l.turn != nil && l.turn() {
			l.rest = append([]byte(nil), b[:n]...)
			return n, errTurn
		}
		if *limit >= 0 {
			*limit -= int64(n)
		}
		if err := l.write(b[:n]); err != nil {
			return n, err
		}
	}
	switch {
	case err == io.EOF:
		return n, io.EOF
	case err != nil:
		return n, &sideError{false, err}
	}
	return n, nil
}

// write charges the budget and writes.
func (l *lane) write(b []byte) error {
	allowed := l.take(len(b))
	n, err := l.dst.Write(b[:allowed])
	l.count.Add(int64(n))
	if err != nil {
		return &sideError{true, err}
	}
	if allowed < len(b) {
		return errBudget
	}
	return nil
}

// bulk carries bytes while they come fast.
func (l *lane) bulk(limit *int64) error {
	b := l.large.borrow()
	defer l.large.giveBack(b)
	for *limit != 0 {
		if n, err := l.step(*b, limit); err != nil || n < smallBuffer {
			return err
		}
	}
	return nil
}

// upward is the lane from the program to the server.
func (f *flow) upward() *lane {
	if f.upLane == nil {
		f.upLane = &lane{
			src: f.client.Conn, dst: f.up, count: &f.sent, large: f.g.large,
			take: func(n int) int { return f.account.Load().takeSent(n) },
		}
	}
	return f.upLane
}

// downward is the lane from the server to the program.
func (f *flow) downward() *lane {
	if f.downLane == nil {
		f.downLane = &lane{
			src: f.up, dst: f.client.Conn, count: &f.received, large: f.g.large,
			take: func(n int) int { return f.account.Load().takeReceived(n) },
		}
	}
	return f.downLane
}

// send passes on what was read ahead of the program's bytes.
func (f *flow) send(n int) error {
	if n == 0 {
		return nil
	}
	err := f.upward().write(f.client.ahead[:n])
	f.client.drop(n)
	return err
}

// relay carries bytes both ways until both sides have ended. With a hello, the bytes
// after it are watched for a second one.
func (f *flow) relay(hello *sniff.Hello) *refusal {
	if !f.mode.CompareAndSwap(undecided, relaying) {
		f.mode.CompareAndSwap(served, relaying)
	}
	if r := f.ensureOpen(); r != nil {
		return r
	}
	if hello != nil {
		if r, done := f.watchHello(*hello); r != nil || done {
			return r
		}
	}
	f.finish(f.sendAll())
	return nil
}

// sendAll passes on what was read ahead and all that follows.
func (f *flow) sendAll() error {
	if err := f.send(len(f.client.ahead)); err != nil {
		return err
	}
	return f.upward().run(-1)
}

// watchHello passes TLS on until no second ClientHello can come. done says that the
// flow is over meanwhile.
func (f *flow) watchHello(hello sniff.Hello) (r *refusal, done bool) {
	w := sniff.NewWatch(hello)
	kept := claim{reserve: f.g.ahead}
	defer kept.set(0)
	err := f.send(hello.Len)
	for err == nil {
		if len(f.client.ahead) > 0 {
			through, bad := w.Next(f.client.ahead)
			if bad != nil {
				return malformed(bad), false
			}
			if through {
				return nil, false
			}
			if !kept.buffer(w.Kept()) {
				return malformed(errFull), false
			}
			if err = f.send(len(f.client.ahead)); err != nil {
				break
			}
		}
		switch e := f.client.more(); e {
		case nil:
		case io.EOF:
			f.finish(nil)
			return nil, true
		default:
			err = &sideError{false, e}
		}
	}
	f.finish(err)
	return nil, true
}

// finish ends a flow whose upward lane has ended with err, nil for the end of what the
// program sends.
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

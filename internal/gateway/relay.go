package gateway

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cofferhq/coffer/internal/gateway/head"
	"github.com/cofferhq/coffer/internal/tcp"
)

// An idle connection keeps a small buffer in each direction. When bytes come faster
// than it takes, a lane borrows a large one, and when they go on coming, it hurries:
//
//   - Out of the machine, where both ends are sockets of the kernel, it lets the kernel move
//     them (splice). Measured on loopback, that is about a quarter more than buffers of any size.
//     It holds a pipe, that is two descriptors and up to a megabyte of the kernel.
//   - Out of a machine whose packets are read here, bytes go from the buffers that they came in
//     straight to the server's socket.
//   - Into the machine it takes a huge buffer. Measured, that is a fifth more than splice,
//     likely since packets there may have half a megabyte (see package kernel), and
//     spliced bytes stay in the pieces in which they came.
//
// Only so many lanes hurry at once, and no splice waits long.
const (
	smallBuffer = 2 << 10
	largeBuffer = 64 << 10
	hugeBuffer  = 256 << 10
	hurryFrom   = 256 << 10 // bytes in a row before a lane hurries
	spliceChunk = 4 << 20
	spliceWait  = 250 * time.Millisecond
	maxHurries  = 64
)

var (
	buffers = sync.Pool{New: func() any { b := make([]byte, largeBuffer); return &b }}
	huge    = sync.Pool{New: func() any { b := make([]byte, hugeBuffer); return &b }}
)

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
	// free says that there is no budget, so that bytes need not be looked at.
	free func() bool
	// over, if set, says that nothing more need be read of src. Whoever makes it so gives
	// src a deadline in the past after that; a splice, which sets its own, must not lift it.
	over func() bool
	// turn is asked after each read while it is set. If it says yes, the lane
	// ends and what was read is left in rest.
	turn    func() bool
	rest    []byte
	outward bool // out of the machine
	hurries chan struct{}
	large   loans
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
	for moved := 0; *limit != 0; {
		n, err := l.step(*b, limit)
		if err != nil {
			return err
		}
		if moved += n; moved >= hurryFrom && l.turn == nil {
			if err := l.hurry(limit); err != nil {
				return err
			}
			moved = 0
		}
		if n < smallBuffer {
			return nil
		}
	}
	return nil
}

// hurry carries bytes in the quickest way there is, as long as they come without a pause.
func (l *lane) hurry(limit *int64) error {
	select {
	case l.hurries <- struct{}{}:
		defer func() { <-l.hurries }()
	default:
		return nil
	}
	src, fromKernel := l.src.(*tcp.Conn)
	dst, toKernel := l.dst.(*tcp.Conn)
	if l.outward && tcp.CanSplice && fromKernel && toKernel && l.free() {
		if p, err := tcp.NewPipe(); err == nil { // if not, there are other ways
			defer p.Close()
			return l.splice(src, dst, p, limit)
		}
	}
	if g, ok := l.src.(giver); ok && toKernel && *limit < 0 && l.free() {
		return l.give(g, dst)
	}
	b := huge.Get().(*[]byte)
	defer huge.Put(b)
	for *limit != 0 {
		if n, err := l.step(*b, limit); err != nil || n < smallBuffer {
			return err
		}
	}
	return nil
}

// splice lets the kernel move bytes.
func (l *lane) splice(src, dst *tcp.Conn, p *tcp.Pipe, limit *int64) error {
	defer l.unhurried(src)
	for chunk := 0; *limit != 0 && l.free(); {
		if chunk <= 0 {
			chunk = spliceChunk
			_ = src.SetReadDeadline(time.Now().Add(spliceWait))
		}
		most := chunk
		if *limit > 0 {
			most = int(min(int64(most), *limit))
		}
		n, err := p.Fill(src, most)
		if l.over != nil && l.over() {
			return nil
		}
		switch {
		case err == io.EOF:
			return io.EOF
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return &sideError{false, err}
		}
		sent, err := p.Drain(dst, n)
		l.count.Add(int64(sent))
		l.take(sent) // free: only counted
		if err != nil {
			return &sideError{true, err}
		}
		if chunk -= n; *limit > 0 {
			*limit -= int64(n)
		}
	}
	return nil
}

// A giver is a connection whose bytes are in the memory of this process. Give has take take
// about most of them, as soon as there are some.
type giver interface {
	Give(most int, take func(from func(io.Writer)) error) error
}

// give has the server's socket take what the program sends, without a copy between.
func (l *lane) give(src giver, dst *tcp.Conn) error {
	for l.free() {
		sent, failed := 0, error(nil)
		err := src.Give(hugeBuffer, func(from func(io.Writer)) error {
			sent, failed = dst.Take(from)
			return failed
		})
		l.count.Add(int64(sent))
		l.take(sent) // free: only counted
		switch {
		case failed != nil:
			return &sideError{true, failed}
		case err == io.EOF:
			return io.EOF
		case err != nil:
			return &sideError{false, err}
		case sent < smallBuffer:
			return nil
		}
	}
	return nil
}

// unhurried takes back the deadline of a splice, and no other.
func (l *lane) unhurried(src *tcp.Conn) {
	_ = src.SetReadDeadline(time.Time{})
	if l.over != nil && l.over() {
		_ = src.SetReadDeadline(time.Now())
	}
}

// upward is the lane from the program to the server.
func (f *flow) upward() *lane {
	if f.upLane == nil {
		f.upLane = &lane{
			src: f.client.Conn, dst: f.up, count: &f.sent, outward: true, hurries: f.g.hurries, large: f.g.large,
			take: func(n int) int { return f.account.Load().takeSent(n) },
			free: func() bool { return f.account.Load().freeToSend() },
			over: func() bool { return f.mode.Load() == speaking && f.isDown() },
		}
	}
	return f.upLane
}

// downward is the lane from the server to the program.
func (f *flow) downward() *lane {
	if f.downLane == nil {
		f.downLane = &lane{
			src: f.up, dst: f.client.Conn, count: &f.received, hurries: f.g.hurries, large: f.g.large,
			take: func(n int) int { return f.account.Load().takeReceived(n) },
			free: func() bool { return f.account.Load().freeToReceive() },
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
func (f *flow) relay(hello *head.Hello) *refusal {
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
func (f *flow) watchHello(hello head.Hello) (r *refusal, done bool) {
	w := head.NewWatch(hello)
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

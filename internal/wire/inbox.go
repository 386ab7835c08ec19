package wire

import (
	"io"
	"sync"
)

// An Inbox holds input that the program has not read yet: as much as the client had
// credit for, and no more. As it is read, the client gets new credit.
type Inbox struct {
	grant func(n int)

	mu     sync.Mutex
	more   sync.Cond
	buf    []byte
	off    int // what of it was read
	owed   int // read, but not yet granted again
	closed bool
	lost   bool // nobody will read what comes
}

// NewInbox makes one that gives credit by grant.
func NewInbox(grant func(n int)) *Inbox {
	in := &Inbox{grant: grant}
	in.more.L = &in.mu
	return in
}

// Put takes input from the client, and says whether there was room.
func (in *Inbox) Put(b []byte) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.lost || in.closed {
		return true
	}
	if len(in.buf)-in.off+in.owed+len(b) > Window {
		return false
	}
	if in.off > Window/2 {
		in.buf = append(in.buf[:0], in.buf[in.off:]...)
		in.off = 0
	}
	in.buf = append(in.buf, b...)
	in.more.Broadcast()
	return true
}

// Read waits for input. What was read before counts as taken by the program.
func (in *Inbox) Read(p []byte) (int, error) {
	in.mu.Lock()
	if in.owed >= Window/4 {
		owed := in.owed
		in.owed = 0
		in.mu.Unlock()
		in.grant(owed)
		in.mu.Lock()
	}
	defer in.mu.Unlock()
	for len(in.buf) == in.off && !in.closed {
		in.more.Wait()
	}
	if len(in.buf) == in.off {
		return 0, io.EOF
	}
	n := copy(p, in.buf[in.off:])
	in.off += n
	in.owed += n
	return n, nil
}

// Close says that no more input comes.
func (in *Inbox) Close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.more.Broadcast()
}

// Discard drops what comes: the program has closed its end.
func (in *Inbox) Discard() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.lost, in.buf, in.off = true, nil, 0
}

package guest

import (
	"io"
	"sync"

	"github.com/cofferhq/coffer/internal/guest/wire"
)

// An inbox holds input that the program has not read yet: as much as the client had
// credit for, and no more. As it is read, the client gets new credit.
type inbox struct {
	grant func(n int)

	mu     sync.Mutex
	more   sync.Cond
	buf    []byte
	off    int // what of it was read
	owed   int // read, but not yet granted again
	closed bool
	lost   bool // nobody will read what comes
}

func newInbox(grant func(n int)) *inbox {
	in := &inbox{grant: grant}
	in.more.L = &in.mu
	return in
}

// put takes input from the client, and says whether there was room.
func (in *inbox) put(b []byte) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.lost || in.closed {
		return true
	}
	if len(in.buf)-in.off+in.owed+len(b) > wire.Window {
		return false
	}
	if in.off > wire.Window/2 {
		in.buf = append(in.buf[:0], in.buf[in.off:]...)
		in.off = 0
	}
	in.buf = append(in.buf, b...)
	in.more.Broadcast()
	return true
}

// Read waits for input. What was read before counts as taken by the program.
func (in *inbox) Read(p []byte) (int, error) {
	in.mu.Lock()
	if in.owed >= wire.Window/4 {
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

// close says that no more input comes.
func (in *inbox) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.more.Broadcast()
}

// discard drops what comes: the program has closed its end.
func (in *inbox) discard() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.lost, in.buf, in.off = true, nil, 0
}

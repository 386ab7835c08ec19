package audit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// chunk is how much is collected before it is written.
const chunk = 64 << 10

// writer appends to the chain. Only one goroutine uses it.
type writer struct {
	dir     string
	max     int64 // size at which a file is full
	keep    int   // how many files
	durable bool  // wait for the disk where order matters

	file   *os.File // opened by the first write
	number int      // of the file
	size   int64    // what is written of it
	chain  chain    // after the last line, written or not

	// pending is lines that are not written, from done on. After a write that failed
	// halfway it starts within a line, and the rest of it must follow: the chain has
	// gone on.
	pending []byte
	done    int

	settled head // the last line that is written as a whole
	told    head // what the head file says

	fresh bool // the file is to be begun, with a marker
	late  bool // the head file is evidence until what it proves is written
	begun bool // a file was begun; head file and old files have to follow
}

// put adds a line for an event of this kind and body. There must be room.
func (w *writer) put(kind string, body []byte) {
	w.chain.seq++
	if !isOwn(kind) {
		w.chain.events++
	}
	w.pending, w.chain.hash = appendLine(w.pending, w.chain.seq, w.chain.hash, body)
}

// room makes room for a line: opens the file, or begins the next one when it is full.
// After an error nothing can be put; it can be tried again.
func (w *writer) room() error {
	if err := w.begin(); err != nil {
		return err
	}
	if len(w.pending)-w.done >= chunk {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if w.size+int64(len(w.pending)-w.done) < w.max {
		return nil
	}
	if err := w.flush(); err != nil {
		return err
	}
	if w.durable {
		if err := w.file.Sync(); err != nil {
			return err
		}
	}
	return w.next(w.number + 1)
}

// begin opens the file that is to be written first.
func (w *writer) begin() error {
	if w.file != nil {
		return nil
	}
	if !w.late {
		// The head must not say that the log is closed, or not exist, while there
		// is more than it knows.
		if err := w.tell(false); err != nil {
			return err
		}
	}
	if w.fresh {
		return w.next(w.number)
	}
	f, err := open(w.dir, fileName(w.number), os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return err
	}
	w.file = f
	return nil
}

// next begins a file with its marker.
func (w *writer) next(number int) error {
	f, err := open(w.dir, fileName(number), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND)
	if err != nil {
		return err
	}
	if w.file != nil {
		w.file.Close()
	}
	w.file, w.number, w.size, w.fresh = f, number, 0, false
	marker := Event{
		Time:   time.Now(),
		Kind:   KindRotated,
		Count:  w.chain.events,
		Detail: fileName(w.oldest()),
	}
	w.put(marker.Kind, appendBody(nil, &marker))
	w.begun = true
	if w.late {
		return nil
	}
	return w.flush()
}

// oldest is the number of the oldest file to keep.
func (w *writer) oldest() int { return max(1, w.number-w.keep+1) }

// flush writes what is pending.
func (w *writer) flush() error {
	if w.done < len(w.pending) {
		n, err := w.file.Write(w.pending[w.done:])
		w.size += int64(n)
		w.done += n
		if err != nil {
			return err
		}
	}
	w.done, w.pending = 0, w.pending[:0]
	if w.file != nil {
		w.settled = head{chain: w.chain, number: w.number, size: w.size}
	}
	switch {
	case w.begun:
		return w.tidy()
	case w.late:
		return w.sync(false)
	}
	return nil
}

// tidy follows the beginning of a file. Old files go only after the marker that says so
// is written.
func (w *writer) tidy() error {
	if err := w.sync(false); err != nil {
		return err
	}
	w.begun = false
	all, err := listFiles(w.dir)
	if err != nil {
		return err
	}
	for _, n := range all {
		if n < w.oldest() {
			// If it cannot be removed, the next time it may.
			_ = os.Remove(filepath.Join(w.dir, fileName(n)))
		}
	}
	return nil
}

// sync updates the head file, after everything it speaks of has reached the disk: else
// a power cut would look as if somebody had cut the log.
func (w *writer) sync(closed bool) error {
	h := w.settled
	h.closed = closed
	if h == w.told {
		return nil
	}
	if w.durable && w.file != nil {
		if err := w.file.Sync(); err != nil {
			return fmt.Errorf("write the audit log: %w", err)
		}
	}
	return w.tell(closed)
}

// tell writes the head file.
func (w *writer) tell(closed bool) error {
	h := w.settled
	h.closed = closed
	if err := writeHead(w.dir, h, w.durable); err != nil {
		return err
	}
	w.told = h
	w.late = false
	return nil
}

// finish says that this was the end. A log to which nothing was written stays as it is.
func (w *writer) finish() error {
	if w.file == nil && w.told == (head{}) {
		return nil
	}
	return w.sync(true)
}

// unwritten is how many lines are not written as a whole.
func (w *writer) unwritten() int { return bytes.Count(w.pending[w.done:], []byte{'\n'}) }

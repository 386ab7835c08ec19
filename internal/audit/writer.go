package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// chunk is how much is written at once.
const chunk = 64 << 10

// writer appends to the chain. Only one goroutine uses it. Its fields are about what is
// written as a whole: a write that failed halfway is repeated at the same place.
type writer struct {
	dir     string
	max     int64 // size at which a file is full
	keep    int   // how many files
	durable bool  // wait for the disk where order matters

	chain  chain    // after the last line
	number int      // of the file
	size   int64    // of the file
	file   *os.File // opened by the first write
	fresh  bool     // the file is to be begun, with a marker

	head head // what the head file says

	// recovered is the event to be written first if the log was not closed or does not
	// fit its head. Until then the head file stays: it is evidence.
	recovered []byte
}

// add writes events, and returns how many.
func (w *writer) add(events [][]byte) (n int, err error) {
	if len(events) == 0 && w.recovered == nil {
		return 0, nil
	}
	if err := w.begin(); err != nil {
		return 0, err
	}
	for n < len(events) {
		if w.size >= w.max {
			if err := w.rotate(w.number + 1); err != nil {
				return n, err
			}
		}
		next := w.chain
		end := n
		var lines []byte
		for ; end < len(events) && len(lines) < chunk && w.size+int64(len(lines)) < w.max; end++ {
			lines = next.append(lines, events[end])
			next.events++
		}
		if err := w.write(lines, next); err != nil {
			return n, err
		}
		n = end
	}
	return n, nil
}

// write writes lines that end the chain at next.
func (w *writer) write(lines []byte, next chain) error {
	if _, err := w.file.WriteAt(lines, w.size); err != nil {
		return err
	}
	w.size += int64(len(lines))
	w.chain = next
	return nil
}

// begin prepares the first write: the head must not say that the log is closed, or not
// exist, while there is more than it knows.
func (w *writer) begin() error {
	if w.file == nil && w.recovered == nil {
		if err := w.sync(false); err != nil {
			return err
		}
	}
	if w.file == nil && w.fresh {
		if err := w.rotate(w.number); err != nil {
			return err
		}
	}
	if w.file == nil {
		f, err := open(w.dir, fileName(w.number), os.O_WRONLY|os.O_CREATE)
		if err != nil {
			return err
		}
		w.file = f
	}
	if w.recovered == nil {
		return nil
	}
	next := w.chain
	if err := w.write(next.append(nil, w.recovered), next); err != nil {
		return err
	}
	w.recovered = nil
	return w.sync(false)
}

// rotate begins the file of this number, with its marker. Then old files go.
func (w *writer) rotate(number int) error {
	f, err := open(w.dir, fileName(number), os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	oldest := max(1, number-w.keep+1)
	marker := Event{Time: time.Now(), Kind: KindRotated, Count: w.chain.events, Detail: fileName(oldest)}
	next := w.chain
	line := next.append(nil, encode(marker))
	_, err = f.WriteAt(line, 0)
	if err == nil && w.durable && w.file != nil {
		err = w.file.Sync()
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if w.file != nil {
		w.file.Close()
	}
	w.file, w.number, w.size, w.chain, w.fresh = f, number, int64(len(line)), next, false
	if w.recovered != nil {
		return nil
	}
	if err := w.sync(false); err != nil {
		return err
	}
	all, err := listFiles(w.dir)
	for _, n := range all {
		if n < oldest {
			_ = os.Remove(filepath.Join(w.dir, fileName(n))) // or the next time
		}
	}
	return err
}

// told reports whether the head file is up to date.
func (w *writer) told(closed bool) bool {
	return w.head == head{w.chain, w.number, w.size, closed}
}

// sync updates the head file, after everything it speaks of has reached the disk: else
// a power cut would look as if somebody had cut the log. A log to which nothing was ever
// written gets none at its end.
func (w *writer) sync(closed bool) error {
	if w.told(closed) || closed && w.file == nil {
		return nil
	}
	if w.durable && w.file != nil {
		if err := w.file.Sync(); err != nil {
			return fmt.Errorf("write the audit log: %w", err)
		}
	}
	h := head{w.chain, w.number, w.size, closed}
	if err := writeHead(w.dir, h, w.durable); err != nil {
		return err
	}
	w.head = h
	return nil
}

// resume finds out where the log stands. If it was not closed, or does not fit its head,
// it cuts an unfinished line off and goes on after the last line that is in order. Lines
// that are not, it leaves in their file for Verify to find.
func (w *writer) resume() error {
	h, headErr, err := readHead(w.dir)
	if err != nil {
		return err
	}
	numbers, err := listFiles(w.dir)
	if err != nil {
		return err
	}
	w.number = 1
	if len(numbers) == 0 && errors.Is(headErr, fs.ErrNotExist) {
		return nil
	}
	if headErr == nil && h.closed && len(numbers) > 0 && h.number == numbers[len(numbers)-1] {
		// If its last line is not the one that the head knows, the next line breaks the chain.
		info, err := os.Lstat(filepath.Join(w.dir, fileName(h.number)))
		if err == nil && info.Mode().IsRegular() && info.Size() == h.size {
			w.head, w.chain, w.number, w.size = h, h.chain, h.number, h.size
			return nil
		}
	}
	return w.recover(numbers, h, headErr)
}

func (w *writer) recover(numbers []int, h head, headErr error) error {
	seen, err := scan(w.dir, numbers, h)
	if err != nil {
		return err
	}
	var details []string
	if headErr == nil && !h.closed {
		details = append(details, "the log was not closed")
	}
	w.head, w.chain = h, seen.chain
	if len(numbers) > 0 {
		w.number, w.size = seen.file, seen.end
	}
	if seen.torn > 0 {
		details = append(details, fmt.Sprintf("cut off %d bytes of a line that was not finished", seen.torn))
		if err := w.cut(seen.end); err != nil {
			return err
		}
	}
	if seen.proper != seen.end {
		w.number++
		w.size = 0
	}
	w.fresh = w.size == 0 && w.number > 1
	w.recovered = encode(Event{
		Time: time.Now(), Kind: KindRecovered,
		Reason: strings.Join(seen.againstHead(headErr), "; "), Detail: strings.Join(details, "; "),
	})
	return nil
}

func (w *writer) cut(size int64) error {
	f, err := open(w.dir, fileName(w.number), os.O_WRONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Truncate(size)
}

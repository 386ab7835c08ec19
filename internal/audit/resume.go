package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// resume finds out where the log stands. It returns a "recovered" event to be written
// first if the writer before did not close it, or if the log does not fit its head.
func (w *writer) resume() (*Event, error) {
	w.number = 1
	w.settled = head{number: 1}
	h, headErr := readHead(w.dir)
	if headErr != nil && !errors.Is(headErr, fs.ErrNotExist) && !errors.Is(headErr, errHead) {
		return nil, headErr
	}
	numbers, err := listFiles(w.dir)
	if err != nil {
		return nil, err
	}
	if headErr == nil && h.closed && len(numbers) > 0 && h.number == numbers[len(numbers)-1] {
		if ok, err := w.fits(h); ok || err != nil {
			w.stand(h)
			return nil, err
		}
	}
	return w.recover(numbers, h, headErr)
}

// stand takes over the state of a head.
func (w *writer) stand(h head) {
	w.told, w.settled = h, h
	w.settled.closed = false
	w.number, w.size, w.chain = h.number, h.size, h.chain
}

// fits says whether the log ends as the head says, by its last line only.
func (w *writer) fits(h head) (bool, error) {
	f, err := open(w.dir, fileName(h.number), os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() != h.size {
		return false, err
	}
	tail := make([]byte, min(h.size, maxLine+2))
	if _, err := f.ReadAt(tail, h.size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	text, whole := strings.CutSuffix(string(tail), "\n")
	last := text[strings.LastIndexByte(text, '\n')+1:]
	rec, err := parseLine([]byte(last))
	return whole && err == nil && rec.Seq == h.seq && parseSum(rec.Hash) == h.hash, nil
}

// recover reads the end of a log that was not closed, cuts an unfinished line off, and
// goes on after the last line that is in order. Lines that are not, it leaves in their
// file for Verify to find.
func (w *writer) recover(numbers []int, h head, headErr error) (*Event, error) {
	seen := walk{head: h}
	if err := w.reread(&seen, numbers, h); err != nil {
		return nil, err
	}
	problems := seen.againstHead(headErr)
	if len(numbers) == 0 && len(problems) == 0 {
		return nil, nil // nothing was ever written
	}
	w.late = true
	w.told = h
	w.chain = seen.chain
	if len(numbers) > 0 {
		w.number, w.size = seen.file, seen.end
	}
	event := &Event{Time: time.Now(), Kind: KindRecovered, Reason: strings.Join(problems, "; ")}
	var details []string
	if headErr == nil && !h.closed {
		details = append(details, "the log was not closed")
	}
	if seen.tornN > 0 {
		details = append(details, fmt.Sprintf("cut off %d bytes of a line that was not finished: %s",
			seen.tornN, seen.torn[:min(len(seen.torn), 200)]))
		if err := w.cut(seen.end); err != nil {
			return nil, err
		}
	}
	event.Detail = strings.Join(details, "; ")
	if seen.proper != seen.end {
		w.number++
		w.size, w.fresh = 0, true
	}
	if w.size == 0 && w.number > 1 {
		w.fresh = true
	}
	w.settled = head{chain: w.chain, number: w.number, size: w.size}
	return event, nil
}

// reread walks through the file of the head and what follows, and further back if there
// is no line in order.
func (w *writer) reread(seen *walk, numbers []int, h head) error {
	from := len(numbers) - 1
	if i := slices.Index(numbers, h.number); i >= 0 {
		from = i
	}
	for ; from >= 0; from-- {
		*seen = walk{head: h}
		for i := from; i < len(numbers); i++ {
			f, err := open(w.dir, fileName(numbers[i]), os.O_RDONLY)
			if err != nil {
				return err
			}
			err = seen.through(f, numbers[i], i == len(numbers)-1)
			f.Close()
			if err != nil {
				return err
			}
		}
		if seen.first != nil {
			break
		}
	}
	return nil
}

// cut shortens the file.
func (w *writer) cut(size int64) error {
	f, err := open(w.dir, fileName(w.number), os.O_WRONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Truncate(size)
}

package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Summary is what Verify found.
type Summary struct {
	Events   int       `json:"events"` // that are in the log now
	First    time.Time `json:"first,omitzero"`
	Last     time.Time `json:"last,omitzero"`
	Rotated  int64     `json:"rotated"`    // events that rotation has removed
	Lost     int64     `json:"lost"`       // events that could not be written, as far as the log knows
	Torn     int64     `json:"unfinished"` // bytes of a line at the end that a killed writer left, or one is writing
	Problems []string  `json:"problems,omitempty"`
}

// Verify checks the whole log: every hash, the order, the files, and the head. A log that
// was never begun is in order. It may be used while the log is written. The error is
// about reading; what is wrong with the log is in the summary, a sentence for each thing.
func Verify(dir string) (Summary, error) {
	const tries = 100 // tiny files, as in tests, rotate faster than they can be opened
	for try := 1; ; try++ {
		before, beforeErr := readHead(dir)
		s, err := verify(dir, before, beforeErr)
		if err == nil && len(s.Problems) == 0 || try == tries {
			return s, err
		}
		// A writer that opens the log, or removes the oldest file, can make a whole
		// log look broken to one who reads it that moment.
		after, afterErr := readHead(dir)
		if before == after && fmt.Sprint(beforeErr) == fmt.Sprint(afterErr) && !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
	}
}

func verify(dir string, h head, headErr error) (Summary, error) {
	if headErr != nil && !errors.Is(headErr, fs.ErrNotExist) && !errors.Is(headErr, errHead) {
		return Summary{}, headErr
	}
	numbers, err := listFiles(dir)
	if err != nil {
		return Summary{}, err
	}
	// All are opened first: rotation does not wait for us.
	files := make([]*os.File, 0, len(numbers))
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for _, n := range numbers {
		f, err := open(dir, fileName(n), os.O_RDONLY)
		if err != nil {
			return Summary{}, err
		}
		files = append(files, f)
	}
	w := walk{head: h}
	for i, f := range files {
		if err := w.through(f, numbers[i], i == len(files)-1); err != nil {
			return Summary{}, err
		}
	}
	// oldest is 0 in a log of one file, and in one whose markers cannot be read.
	if len(numbers) > 0 && numbers[0] > max(w.oldest, 1) {
		w.problem("%s is missing", missing(max(w.oldest, 1), numbers[0]-1))
	}
	for _, p := range w.againstHead(headErr) {
		w.problem("%s", p)
	}
	if w.more > 0 {
		w.problems = append(w.problems, fmt.Sprintf("and %d more", w.more))
	}
	return Summary{
		Events: w.count, First: w.since, Last: w.last,
		Rotated: w.rotated, Lost: w.lost, Torn: w.tornN, Problems: w.problems,
	}, nil
}

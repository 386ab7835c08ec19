package audit

import (
	"errors"
	"fmt"
	"io"
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
	Torn     int64     `json:"unfinished"` // bytes of a line at the end that a killed writer left, or one is writing
	Problems []string  `json:"problems,omitempty"`
}

// Verify checks the whole log: every hash, the order, the files, and the head. A log that
// was never begun is in order. It may be used while the log is written. The error is
// about reading; what is wrong with the log is in the summary, a sentence for each thing.
func Verify(dir string) (Summary, error) {
	const tries = 100 // tiny files, as in tests, rotate faster than they can be opened
	for try := 1; ; try++ {
		h, headErr, err := readHead(dir)
		if err != nil {
			return Summary{}, err
		}
		s, err := verify(dir, h, headErr)
		if err == nil && len(s.Problems) == 0 || try == tries {
			return s, err
		}
		// A writer that opens the log, or removes the oldest file, can make a whole
		// log look broken to one who reads it that moment.
		after, afterErr, err2 := readHead(dir)
		if err2 == nil && h == after && fmt.Sprint(headErr) == fmt.Sprint(afterErr) && !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
	}
}

func verify(dir string, h head, headErr error) (Summary, error) {
	numbers, err := listFiles(dir)
	if err != nil {
		return Summary{}, err
	}
	w, err := scan(dir, numbers, h)
	if err != nil {
		return Summary{}, err
	}
	// oldest is 0 in a log of one file, and in one whose markers cannot be read.
	if oldest := max(w.oldest, 1); len(numbers) > 0 && numbers[0] > oldest {
		w.problem("%s is missing", span("file", fileName(oldest), fileName(numbers[0]-1)))
	}
	w.problems = append(w.problems, w.againstHead(headErr)...)
	if n := len(w.problems); n > maxProblems {
		w.problems = append(w.problems[:maxProblems], fmt.Sprintf("and %d more", n-maxProblems))
	}
	w.Torn, w.Problems = w.torn, w.problems
	return w.Summary, nil
}

// maxProblems is how many problems are told one by one.
const maxProblems = 100

// walk goes through the files of a log in order and checks every line against the one
// before. After something that does not fit it takes the next line as it is: one change
// is one problem.
type walk struct {
	Summary
	problems []string

	chain         // after the last line that was in order
	known  bool   // whether there is something to compare with
	bad    uint64 // how many lines before this one were not in order
	oldest int    // the file that the last marker says is the oldest

	file   int   // number of the file
	end    int64 // of the last complete line in it
	proper int64 // of the last line in order
	torn   int64 // bytes after the last complete line

	head  head // what to look for…
	found head // …and what is there, if anything
}

// scan walks through all files. It opens them first: rotation does not wait.
func scan(dir string, numbers []int, h head) (*walk, error) {
	files := make([]*os.File, 0, len(numbers))
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for _, n := range numbers {
		f, err := open(dir, fileName(n), os.O_RDONLY)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	w := &walk{head: h}
	if h.seq == 0 {
		w.found.number = 1
	}
	for i, f := range files {
		if w.torn > 0 {
			w.problem("%s ends within a line", fileName(w.file))
		}
		if err := w.through(f, numbers[i]); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *walk) problem(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

func (w *walk) through(f *os.File, number int) error {
	switch {
	case w.file == 0:
		w.known = number == 1 // the chain starts here
	case number != w.file+1:
		w.problem("%s is missing", span("file", fileName(w.file+1), fileName(number-1)))
		w.known = false
	}
	w.file, w.end, w.proper = number, 0, 0
	l := newLines(f)
	for {
		line, err := l.next()
		if errors.Is(err, io.EOF) {
			w.torn = l.rest
			return nil
		}
		if err != nil {
			return err
		}
		w.end = l.end
		w.line(line, l.number)
	}
}

func (w *walk) line(line []byte, n int) {
	rec, err := parseLine(line)
	if err != nil {
		w.problem("%s line %d %v", fileName(w.file), n, err)
		w.bad++
		return
	}
	if n == 1 && w.file > 1 && rec.Kind != KindRotated {
		w.problem("%s does not start with the event that belongs there", fileName(w.file))
	}
	if w.known {
		w.follows(&rec, n)
	} else if rec.Kind == KindRotated {
		w.events = rec.Count
	}
	if w.seq == 0 && rec.Kind == KindRotated {
		w.Rotated = rec.Count
	}
	w.known, w.bad = true, 0
	w.seq, w.hash, w.proper = rec.Seq, parseSum(rec.Hash), w.end
	w.account(&rec)
	if rec.Seq == w.head.seq {
		w.found = head{chain: w.chain, number: w.file, size: w.end}
	}
}

// follows checks that a record is the next one.
func (w *walk) follows(rec *Record, n int) {
	where := fmt.Sprintf("%s line %d", fileName(w.file), n)
	switch next := w.seq + w.bad + 1; {
	case rec.Seq > next:
		w.problem("%s missing before %s", events(next, rec.Seq-1, "is", "are"), where)
	case rec.Seq < next && w.bad == 0:
		w.problem("%s (event %d) stands where event %d should", where, rec.Seq, next)
	case w.bad == 0 && parseSum(rec.Prev) != w.hash:
		w.problem("%s (event %d) does not follow the event before it: one of them was replaced", where, rec.Seq)
	}
}

// account takes note of what a record means for the log as a whole.
func (w *walk) account(rec *Record) {
	switch rec.Kind {
	case KindRotated:
		if rec.Count != w.events && len(w.problems) == 0 {
			w.problem("%s speaks of %d events before it, but there were %d", fileName(w.file), rec.Count, w.events)
		}
		w.events, w.oldest = rec.Count, fileNumber(rec.Detail)
	case KindRecovered:
		if rec.Reason != "" {
			w.problem("found when the log was opened at %s: %s", rec.Time.Format(time.RFC3339), rec.Reason)
		}
	default:
		w.events++
		w.Events++
		if w.First.IsZero() {
			w.First = rec.Time
		}
		w.Last = rec.Time
	}
}

// againstHead says what does not fit the head file. headErr is what is wrong with the file
// itself.
func (w *walk) againstHead(headErr error) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	h := w.head
	fits := h
	fits.closed = false
	switch {
	case errors.Is(headErr, fs.ErrNotExist):
		if w.file > 0 {
			say("the head file is missing")
		}
		return problems
	case headErr != nil:
		say("the head file is damaged")
		return problems
	case w.file == 0 && h.seq > 0:
		say("the log with its %d events is gone", h.events)
		return problems
	case h.seq > w.seq+w.bad:
		say("%s missing from the end", events(w.seq+w.bad+1, h.seq, "is", "are"))
	case h.seq > w.seq: // lines that were told already
	case w.found.number == 0:
		say("event %d, which the head file remembers, is missing", h.seq)
	case w.found.hash != h.hash:
		say("event %d is not the one that the head file remembers", h.seq)
	case w.found != fits && len(w.problems) == 0:
		say("the head file does not fit the log")
	}
	if h.closed && w.seq > h.seq {
		say("%s added after the log was closed", events(h.seq+1, w.seq, "was", "were"))
	}
	if h.closed && w.torn > 0 && w.seq >= h.seq {
		say("%d bytes were added after the log was closed", w.torn)
	}
	return problems
}

// events names some events, with a verb.
func events(from, to uint64, one, many string) string {
	if from == to {
		return fmt.Sprintf("event %d %s", from, one)
	}
	return fmt.Sprintf("events %d to %d %s", from, to, many)
}

func span(what, from, to string) string {
	if from == to {
		return what + " " + from
	}
	return fmt.Sprintf("%ss %s to %s", what, from, to)
}

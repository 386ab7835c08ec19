package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// maxProblems is how many problems are told one by one.
const maxProblems = 100

// walk goes through the files of a log in order and checks every line against the one
// before. After something that does not fit it takes the next line as it is: one change
// is one problem.
type walk struct {
	chain         // after the last line that was in order
	known bool    // whether there is something to compare with
	bad   uint64  // how many lines before this one were not in order
	first *Record // the first in the log

	count       int
	oldest      int // the file that the last marker says is the oldest
	rotated     int64
	lost        int64
	since, last time.Time

	file   int   // number of the file
	end    int64 // of the last complete line in it
	torn   []byte
	tornN  int64
	proper int64 // end of the last line in order

	head   head // what to look for…
	record head // …and what is there

	problems []string
	more     int
}

func (w *walk) problem(format string, args ...any) {
	if len(w.problems) == maxProblems {
		w.more++
		return
	}
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// through reads one file. Only the last one may end within a line.
func (w *walk) through(f *os.File, number int, newest bool) error {
	if w.file > 0 && number != w.file+1 {
		w.problem("%s is missing", missing(w.file+1, number-1))
		w.known = false
	}
	if w.file == 0 && number == 1 {
		w.known = true // the chain starts here
	}
	w.file, w.end, w.proper, w.torn, w.tornN = number, 0, 0, nil, 0
	l := newLines(f)
	for {
		line, err := l.next()
		if errors.Is(err, io.EOF) {
			return w.ended(f, line, newest)
		}
		if err != nil {
			return err
		}
		w.end = l.end
		w.line(line, l.number)
	}
}

// ended looks at what follows the last complete line of a file.
func (w *walk) ended(f *os.File, rest []byte, newest bool) error {
	if len(rest) == 0 {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	w.torn, w.tornN = rest, max(info.Size()-w.end, int64(len(rest)))
	if !newest {
		w.problem("%s ends within a line", fileName(w.file))
	}
	return nil
}

func missing(from, to int) string {
	if from == to {
		return "file " + fileName(from)
	}
	return fmt.Sprintf("files %s to %s", fileName(from), fileName(to))
}

// line checks one line.
func (w *walk) line(line []byte, n int) {
	rec, err := checkLine(line)
	if err != nil {
		w.problem("%s line %d %v", fileName(w.file), n, err)
		w.bad++
		return
	}
	rec.line = nil
	if n == 1 && w.file > 1 && rec.Kind != KindRotated {
		w.problem("%s does not start with the event that belongs there", fileName(w.file))
	}
	if w.known {
		w.follows(&rec, n)
	} else if rec.Kind == KindRotated {
		w.events = rec.Count
	}
	w.known, w.bad = true, 0
	w.seq, w.hash, w.proper = rec.Seq, parseSum(rec.Hash), w.end
	if w.first == nil {
		w.first = &rec
		if rec.Kind == KindRotated {
			w.rotated = rec.Count
		}
	}
	w.account(&rec)
	if rec.Seq == w.head.seq {
		w.record = head{chain: w.chain, number: w.file, size: w.end}
	}
}

// follows checks that a record is the next one.
func (w *walk) follows(rec *Record, n int) {
	where := fmt.Sprintf("%s line %d", fileName(w.file), n)
	switch next := w.seq + w.bad + 1; {
	case rec.Seq > next:
		w.problem("%s before %s", lacking(next, rec.Seq-1), where)
	case rec.Seq < next && w.bad == 0:
		w.problem("%s (event %d) stands where event %d should", where, rec.Seq, next)
	case w.bad == 0 && parseSum(rec.Prev) != w.hash:
		w.problem("%s (event %d) does not follow the event before it: one of them was replaced", where, rec.Seq)
	}
}

func lacking(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("event %d is missing", from)
	}
	return fmt.Sprintf("events %d to %d are missing", from, to)
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
	case KindLost:
		w.lost += rec.Count
	default:
		w.events++
		w.count++
		if w.since.IsZero() {
			w.since = rec.Time
		}
		w.last = rec.Time
	}
}

// againstHead says what does not fit the head file. headErr is from reading it.
func (w *walk) againstHead(headErr error) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	h := w.head
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
	}
	switch {
	case h.seq > w.seq+w.bad:
		say("%s from the end", lacking(w.seq+w.bad+1, h.seq))
	case h.seq > w.seq: // lines that were told already
	case h.seq == 0:
		if h.chain != (chain{}) || h.size != 0 || h.number != 1 {
			say("the head file does not fit the log")
		}
	case w.record.seq == 0:
		say("event %d, which the head file remembers, is missing", h.seq)
	case w.record.hash != h.hash:
		say("event %d is not the one that the head file remembers", h.seq)
	case w.record.number != h.number || w.record.size != h.size || w.record.events != h.events:
		if len(w.problems) == 0 {
			say("the head file does not fit the log")
		}
	}
	if h.closed && w.seq > h.seq {
		say("%s added after the log was closed", added(h.seq+1, w.seq))
	}
	if h.closed && w.tornN > 0 && w.seq >= h.seq {
		say("%d bytes were added after the log was closed", w.tornN)
	}
	return problems
}

func added(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("event %d was", from)
	}
	return fmt.Sprintf("events %d to %d were", from, to)
}

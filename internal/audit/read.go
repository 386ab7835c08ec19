package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Filter chooses records. The zero value chooses all.
type Filter struct {
	Since, Until time.Time // what ended after Since and began before Until
	Kinds        []string
	Host         string // a name, "*.example.com" for all below one, or an address
	Verdict      string
	Limit        int // only the last so many
}

// match reports whether the filter chooses an event. It does not know about Limit.
func (f *Filter) match(e *Event) bool {
	return (f.Since.IsZero() || !e.Time.Add(e.Duration).Before(f.Since)) &&
		(f.Until.IsZero() || e.Time.Before(f.Until)) &&
		(len(f.Kinds) == 0 || slices.Contains(f.Kinds, e.Kind)) &&
		(f.Verdict == "" || f.Verdict == e.Verdict) &&
		(f.Host == "" || f.matchHost(e))
}

func (f *Filter) matchHost(e *Event) bool {
	if below, ok := strings.CutPrefix(f.Host, "*"); ok && strings.HasPrefix(below, ".") {
		n := len(e.Host) - len(below)
		return n > 0 && strings.EqualFold(e.Host[n:], below)
	}
	return strings.EqualFold(f.Host, e.Host) || e.Addr.IsValid() && f.Host == e.Addr.String()
}

// ErrDamaged is for a log with lines that are no events, or are not as they were written.
// It comes after all that can be read has been.
var ErrDamaged = errors.New("the audit log is damaged")

// Read calls fn for every record that the filter chooses, in order. An error of fn ends
// it. It checks the lines that may be chosen, each by itself, but not the chain: that is
// Verify. While the log is written, a reader slower than rotation may miss a file; the
// numbers of the records show it.
func Read(dir string, filter Filter, fn func(Record) error) error {
	c := cursor{dir: dir}
	defer c.close()
	if err := c.limited(filter, fn); err != nil {
		return err
	}
	return c.damage
}

// Follow is Read that goes on with what is added, until ctx ends: then it reads what
// there is and returns the cause.
func Follow(ctx context.Context, dir string, filter Filter, fn func(Record) error) error {
	c := cursor{dir: dir}
	defer c.close()
	if err := c.limited(filter, fn); err != nil {
		return err
	}
	const every = 200 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		ended := ctx.Err() != nil // asked before reading, so that nothing is missed
		if err := c.read(filter, fn); err != nil {
			return err
		}
		if ended {
			return errors.Join(c.damage, context.Cause(ctx))
		}
	}
}

// cursor is a place in a log.
type cursor struct {
	dir    string
	file   *os.File
	number int   // of the file
	at     int64 // after the last complete line
	line   int   // its number
	damage error // the first line that is not in order
}

func (c *cursor) close() {
	if c.file != nil {
		c.file.Close()
	}
}

func (c *cursor) limited(filter Filter, fn func(Record) error) error {
	if filter.Limit <= 0 {
		return c.read(filter, fn)
	}
	var last []Record
	err := c.read(filter, func(r Record) error {
		r.line = slices.Clone(r.line)
		if len(last) == filter.Limit {
			last = last[1:]
		}
		last = append(last, r)
		return nil
	})
	if err != nil {
		return err
	}
	for _, r := range last {
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}

func (c *cursor) read(filter Filter, fn func(Record) error) error {
	numbers, err := listFiles(c.dir)
	if err != nil {
		return err
	}
	for {
		// There is a newer file: nothing will be added to this one. The list is
		// older than what is read now, so this is true.
		newer, _ := slices.BinarySearch(numbers, c.number+1)
		if c.file != nil {
			if err := c.rest(filter, fn, newer < len(numbers)); err != nil {
				return err
			}
		}
		if newer == len(numbers) {
			return nil
		}
		f, err := open(c.dir, fileName(numbers[newer]), os.O_RDONLY)
		if errors.Is(err, os.ErrNotExist) { // rotation was faster
			numbers = slices.Delete(numbers, newer, newer+1)
			continue
		}
		if err != nil {
			return err
		}
		c.close()
		c.file, c.number, c.at, c.line = f, numbers[newer], 0, 0
	}
}

// rest reads what is new in the file. A line that is not finished is left for later,
// unless the file is.
func (c *cursor) rest(filter Filter, fn func(Record) error, finished bool) error {
	if _, err := c.file.Seek(c.at, io.SeekStart); err != nil {
		return err
	}
	l := newLines(c.file)
	start := c.at
	for {
		line, err := l.next()
		if errors.Is(err, io.EOF) {
			if finished && l.rest > 0 {
				c.damaged(errShape)
			}
			return nil
		}
		if err != nil {
			return err
		}
		c.at = start + l.end
		c.line++
		rec, err := parseLine(line)
		if err != nil {
			c.damaged(err)
		}
		if rec.Seq > 0 && filter.match(&rec.Event) {
			if err := fn(rec); err != nil {
				return err
			}
		}
	}
}

func (c *cursor) damaged(err error) {
	if c.damage == nil {
		c.damage = fmt.Errorf("%w: %s line %d %w", ErrDamaged, fileName(c.number), c.line, err)
	}
}

package audit

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Options bound a log. The zero value is what a lasting sandbox uses.
type Options struct {
	FileSize int64 // bytes at which a file is full; 0: 8 MB
	Files    int   // how many files are kept; 0: 8

	// Throwaway never waits for the disk: a log that goes with its sandbox need not
	// survive a power cut.
	Throwaway bool

	pace pace
}

// Log is the writer of a log. Its methods may be called from several goroutines at once.
type Log struct {
	pace pace
	lock *os.File

	mu         sync.Mutex
	closed     bool
	queue      batch
	allowances map[string]*allowance
	summaries  map[likeness]*Event
	summaryAt  time.Time // when they are due, if there are any
	lost       map[string]int64
	failing    bool   // the last write failed
	why        string // with this error

	wake    chan struct{} // something is in the queue
	hurry   chan struct{} // and it is a lot
	closing chan struct{}
	ended   chan struct{}

	// What follows is the writing goroutine's.
	w       *writer
	backlog batch // taken from the queue, not yet given to w
	err     error
}

// batch is the bodies of events, one after the other.
type batch struct {
	bytes []byte
	items []item
}

type item struct {
	kind string
	end  int
}

func (b *batch) add(e *Event) {
	b.bytes = appendBody(b.bytes, e)
	b.items = append(b.items, item{e.Kind, len(b.bytes)})
}

// Open opens the log in dir for writing, and makes it if there is none. There can be only
// one writer: for a second one the error is ErrLocked.
func Open(dir string) (*Log, error) { return Options{}.Open(dir) }

// Open is the function Open with these bounds.
func (o Options) Open(dir string) (*Log, error) {
	if o.FileSize <= 0 {
		o.FileSize = 8 << 20
	}
	if o.Files <= 0 {
		o.Files = 8
	}
	if o.pace == (pace{}) {
		o.pace = usual
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	w := &writer{dir: dir, max: o.FileSize, keep: o.Files, durable: !o.Throwaway}
	recovered, err := w.resume()
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	l := &Log{
		pace:       o.pace,
		lock:       lock,
		allowances: map[string]*allowance{},
		summaries:  map[likeness]*Event{},
		lost:       map[string]int64{},
		wake:       make(chan struct{}, 1),
		hurry:      make(chan struct{}, 1),
		closing:    make(chan struct{}),
		ended:      make(chan struct{}),
		w:          w,
	}
	if recovered != nil {
		l.queue.add(recovered)
		nudge(l.wake)
	}
	go l.run()
	return l, nil
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Add adds an event. It never waits for the disk and never fails; an event that cannot be
// kept is counted. After Close it does nothing.
func (l *Log) Add(e Event) {
	if !isWord(e.Kind) || isOwn(e.Kind) {
		e.Kind = kindOther
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	now := time.Now()
	if y := e.Time.UTC().Year(); e.Time.IsZero() || y < 1 || y > 9999 {
		e.Time = now
	}
	a := l.allow(e.Kind, now)
	switch {
	case len(l.queue.bytes) >= l.pace.queue && l.failing:
		l.lose(&e)
		return
	case len(l.queue.bytes) >= l.pace.queue || a.left <= 0:
		if len(l.summaries) == 0 {
			nudge(l.wake) // there is a time to wait for
		}
		l.summarise(&e)
		return
	}
	before := len(l.queue.bytes)
	l.queue.add(&e)
	a.left -= len(l.queue.bytes) - before + len(lineStart) + tailSize
	if before == 0 {
		nudge(l.wake)
	}
	if len(l.queue.bytes) > l.pace.queue/8 {
		nudge(l.hurry)
	}
}

// Close writes what is left and ends the log. The error says how many events could not
// be written, if any. Only the first call does something.
func (l *Log) Close() error {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	l.mu.Unlock()
	if first {
		close(l.closing)
	}
	<-l.ended
	if !first {
		return nil
	}
	return errors.Join(l.err, l.lock.Close())
}

// run is the goroutine that writes.
func (l *Log) run() {
	defer close(l.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var flushed, flushAt, headAt time.Time
	for {
		l.mu.Lock()
		summaryAt := l.summaryAt
		if len(l.summaries) == 0 {
			summaryAt = time.Time{}
		}
		failing := l.failing
		l.mu.Unlock()
		hurry := l.hurry
		if failing {
			hurry = nil // the next try comes in time
		}
		timer.Reset(until(flushAt, headAt, summaryAt))
		select {
		case <-l.wake:
			if flushAt.IsZero() {
				flushAt = flushed.Add(l.pace.flush) // the first after a while is written at once
			}
			continue
		case <-hurry:
		case <-timer.C:
		case <-l.closing:
			l.err = l.finish()
			return
		}
		flushed, flushAt = time.Now(), time.Time{}
		if err := l.flush(false); err != nil {
			flushAt = time.Now().Add(l.pace.retry)
			continue
		}
		switch now := time.Now(); {
		case l.w.file == nil || l.w.settled == l.w.told:
			headAt = time.Time{}
		case headAt.IsZero():
			headAt = now.Add(l.pace.head)
		case !now.Before(headAt):
			// An error here loses nothing; the next try is due when this one was.
			_ = l.w.sync(false)
			headAt = now.Add(l.pace.head)
		}
	}
}

// until is the time to the earliest of these that is set.
func until(times ...time.Time) time.Duration {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if first.IsZero() {
		return time.Hour
	}
	return max(0, time.Until(first))
}

// flush writes what an earlier try has left, then the queue, the summaries that are due,
// and how many events were lost meanwhile.
func (l *Log) flush(final bool) error {
	err := l.write()
	if err == nil {
		l.take(final)
		err = l.write()
	}
	if err != nil {
		l.mu.Lock()
		l.failing, l.why = true, err.Error()
		l.mu.Unlock()
	}
	return err
}

// take makes the queue the backlog. Writing has just worked, so nothing is lost any more.
func (l *Log) take(final bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failing = false
	l.backlog, l.queue = l.queue, l.backlog
	if len(l.summaries) > 0 && (final || !time.Now().Before(l.summaryAt)) {
		for _, e := range l.takeSummaries() {
			l.backlog.add(e)
		}
	}
	if e := l.takeLost(); e != nil {
		l.backlog.add(e)
	}
}

// write gives the backlog to the writer, and all that to the disk.
func (l *Log) write() error {
	start := 0
	for i, it := range l.backlog.items {
		if err := l.w.room(); err != nil {
			l.backlog.items = l.backlog.items[i:]
			l.trim(start)
			return err
		}
		l.w.put(it.kind, l.backlog.bytes[start:it.end])
		start = it.end
	}
	l.backlog = batch{l.backlog.bytes[:0], l.backlog.items[:0]}
	if cap(l.backlog.bytes) > l.pace.queue/4 {
		l.backlog = batch{} // a burst is over
	}
	return l.w.flush()
}

// trim drops the bytes of events that have been given to the writer.
func (l *Log) trim(n int) {
	l.backlog.bytes = append(l.backlog.bytes[:0], l.backlog.bytes[n:]...)
	for i := range l.backlog.items {
		l.backlog.items[i].end -= n
	}
}

// finish is the last flush. If it fails, what is left in memory is lost: the next Open
// says that this log was not closed.
func (l *Log) finish() error {
	err := l.flush(true)
	if err == nil {
		err = l.w.finish()
	}
	if l.w.file != nil {
		err = errors.Join(err, l.w.file.Close())
	}
	if err == nil {
		return nil
	}
	n := int64(len(l.backlog.items)) + int64(l.w.unwritten())
	l.mu.Lock()
	n += int64(len(l.queue.items))
	for _, s := range l.summaries {
		n += s.Count
	}
	for _, lost := range l.lost {
		n += lost
	}
	l.mu.Unlock()
	return fmt.Errorf("close the audit log: %d events could not be written: %w", n, err)
}

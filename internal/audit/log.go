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

// pace is how fast things go; tests choose another.
type pace struct {
	tick  time.Duration // how old the head file may get, how often floods are written, when a failed write is repeated
	burst int           // allowance in bytes, for each kind
	rate  int           // how many bytes of it come back every second
	queue int           // bytes that may wait in memory
}

var usual = pace{tick: 5 * time.Second, burst: 4 << 20, rate: 4 << 10, queue: 2 << 20}

// Log is the writer of a log. Its methods may be called from several goroutines at once.
type Log struct {
	pace pace
	lock *os.File

	mu      sync.Mutex
	closed  bool
	queue   [][]byte // encoded events
	waiting int      // bytes in it
	flood   flood

	wake    chan struct{} // something is in the queue
	closing chan struct{}
	ended   chan struct{}

	// What follows belongs to the writing goroutine.
	w   *writer
	err error
}

// Open opens the log in dir for writing, and makes it if there is none. There can be only
// one writer: for a second one the error is ErrLocked.
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
	if err := w.resume(); err != nil {
		lock.Close()
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	l := &Log{
		pace:    o.pace,
		lock:    lock,
		flood:   newFlood(o.pace),
		wake:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		ended:   make(chan struct{}),
		w:       w,
	}
	if w.recovered != nil {
		l.nudge()
	}
	go l.run()
	return l, nil
}

func (l *Log) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Add adds an event. It never waits for the disk and never fails; an event that cannot be
// kept is counted. After Close it does nothing.
func (l *Log) Add(e Event) {
	if !isWord(e.Kind) || e.Kind == KindRotated || e.Kind == KindRecovered {
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
	a := l.flood.allow(e.Kind, now)
	if !l.flood.isNew(&e) && (l.waiting >= l.pace.queue || a.left <= 0) {
		l.flood.summarise(&e)
		l.nudge()
		return
	}
	b := encode(e)
	a.left -= len(b) + tailSize
	l.push(b)
	l.nudge()
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

// run is the goroutine that writes: at once what is added, and at the next tick what can wait.
func (l *Log) run() {
	defer close(l.ended)
	var tick <-chan time.Time
	for {
		due := false
		select {
		case <-l.wake:
		case <-tick:
			due, tick = true, nil
		case <-l.closing:
			l.err = l.finish()
			return
		}
		if more := l.flush(due); more && tick == nil {
			tick = time.After(l.pace.tick)
		}
	}
}

// flush writes the queue and, when due, the summaries and the head file. An error loses
// nothing: the next flush goes on there. It reports whether another one is needed.
func (l *Log) flush(due bool) (more bool) {
	err := l.write(due)
	if err == nil && due {
		err = l.w.sync(false)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return err != nil || len(l.flood.summaries) > 0 || !l.w.told(false)
}

// write writes the queue and, if asked, the summaries.
func (l *Log) write(summaries bool) error {
	if err := l.drain(); err != nil || !summaries {
		return err
	}
	l.mu.Lock()
	for _, e := range l.flood.take() {
		l.push(encode(e))
	}
	l.mu.Unlock()
	return l.drain()
}

// drain gives the queue to the writer.
func (l *Log) drain() error {
	l.mu.Lock()
	events := l.queue
	l.mu.Unlock()
	n, err := l.w.add(events)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range events[:n] {
		l.waiting -= len(b)
	}
	l.queue = append([][]byte(nil), l.queue[n:]...)
	return err
}

// push puts an event into the queue. The lock is held.
func (l *Log) push(event []byte) {
	l.waiting += len(event)
	l.queue = append(l.queue, event)
}

// finish is the last flush. If it fails, what is left in memory is lost: the next Open
// says that this log was not closed.
func (l *Log) finish() error {
	err := l.write(true)
	if err == nil {
		err = l.w.sync(true)
	}
	if l.w.file != nil {
		err = errors.Join(err, l.w.file.Close())
	}
	if err == nil {
		return nil
	}
	n := int64(len(l.queue))
	for _, s := range l.flood.take() {
		n += s.Count
	}
	return fmt.Errorf("close the audit log: %d events could not be written: %w", n, err)
}

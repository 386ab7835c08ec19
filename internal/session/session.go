// Package session keeps programs that outlive the commands that asked for them.
//
// A [Session] is a program on a terminal: commands attach to it, leave and come back, each with
// a queue of its own, and a replay of the screen shows them what there is. A [Log] keeps what
// programs without a command print. [Daemons] are programs that the sandbox starts and restarts
// by itself. All of it reaches the sandbox by [wire.Process]; who may run a program, and what
// happens around it, is the supervisor's business.
package session

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// A Session is a program on a terminal that outlives the commands that look at it. They
// come and go, several at a time; each sees all that is printed and may type. The program's
// terminal has the size of the one that came last, or was changed last.
type Session struct {
	p    *wire.Process
	name string // of the program, as it was started
	list *List  // that it is on

	mu      sync.Mutex
	past    *terminal.Replay
	viewers []*viewer
	size    wire.Size
	spoke   time.Time // when the program last printed something
	ended   bool
	silence *time.Timer // until a program that nobody looks at is ended; nil if never
	idle    time.Duration
	bored   bool // it was ended because of that
	halted  bool // it has stopped, see suspend.go
	waking  *time.Timer

	told []*viewer      // who looked at it when it ended
	work sync.WaitGroup // who sends to viewers, and listens to them
}

// leastIdle is the shortest time after which a silent program that nobody looks at is
// ended. A sandbox that is there for one program has no idle time to speak of.
const leastIdle = time.Minute

// New is a session of a program that was started, on a terminal of a size. idle is how long it
// may print nothing while nobody looks at it.
func New(p *wire.Process, name string, size wire.Size, idle time.Duration) *Session {
	return &Session{p: p, name: name, past: terminal.NewReplay(), spoke: time.Now(), size: size, idle: idle}
}

// Wait passes on what the program prints until it has ended, and returns how. Viewers stay until
// [Session.Close], and can be told more.
func (k *Session) Wait() (exit wire.Exit, err error) {
	k.alone()
	k.p.Stopped = k.halt
	exit, err = k.p.Wait(k, nil)
	if k.list != nil { // before anybody hears of the end, and attaches to what runs now
		k.list.remove(k)
	}
	k.end()
	if err == nil {
		k.Tell(func(out *wire.FrameWriter) error { return out.Exited(exit) })
	}
	return exit, err
}

// Bored says why the program was ended if nobody was interested in it; it is empty otherwise.
func (k *Session) Bored() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.bored {
		return ""
	}
	return fmt.Sprintf("nobody was attached to it and it was silent for %s, so it was ended", k.idle)
}

// Tell tells the viewers something after the program has ended.
func (k *Session) Tell(words func(*wire.FrameWriter) error) {
	for _, v := range k.told {
		v.say(words)
	}
}

// Close lets the viewers go when they have heard everything, or do not listen: what waits for
// one is bounded, and so is how long it may take nothing of it.
func (k *Session) Close() {
	for _, v := range k.told {
		v.finish()
	}
	k.work.Wait()
}

// Write takes what the program prints. It waits for nobody.
func (k *Session) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, v := range k.viewers { // what their terminals need depends on what was before
		v.show(p, k.past.Leave)
	}
	_, _ = k.past.Write(p)
	k.spoke = time.Now()
	if k.silence != nil {
		k.silence.Reset(k.idle)
	}
	return len(p), nil
}

func (k *Session) silent() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Since(k.spoke)
}

// Begin has the command that asked for the program see and type. It does not wait, and is called
// before Wait.
func (k *Session) Begin(c net.Conn) {
	if v := newViewer(c); k.add(v, wire.Size{}) {
		k.work.Go(func() { k.listen(v) })
	}
}

// Join has a command see and type until it leaves. One whose terminal has no size gives
// none.
func (k *Session) Join(c net.Conn, size wire.Size) {
	if v := newViewer(c); k.add(v, size) {
		k.listen(v)
	}
}

// listen takes what a viewer types, until he leaves.
func (k *Session) listen(v *viewer) {
	defer k.leave(v)
	in := wire.NewInbox(func(n int) { _ = v.out.Message(wire.Event{Credit: n}) })
	defer in.Close()
	go io.Copy(k.p, in)
	frames := wire.NewFrameReader(v.conn)
	for {
		kind, body, err := frames.Next()
		if err != nil {
			return
		}
		switch kind {
		case wire.Input:
			if !in.Put(body) {
				return // more than it had credit for
			}
		case wire.Message:
			m, err := wire.DecodeControl(body)
			if err != nil {
				return
			}
			k.control(v, m)
		}
	}
}

// add shows a new viewer what there is, and has the program draw itself anew.
func (k *Session) add(v *viewer, size wire.Size) bool {
	k.mu.Lock()
	if k.ended || len(k.viewers) == maxViewers {
		k.mu.Unlock()
		_ = v.out.Message(wire.Event{Failure: &wire.Failure{Code: 125, Message: "the program has ended, or too many look at it"}})
		return false
	}
	defer k.mu.Unlock()
	v.show(k.past.Show(), nil)
	k.viewers = append(k.viewers, v)
	k.work.Go(func() { v.send(func() { k.repaint(v) }) })
	if k.silence != nil {
		k.silence.Stop()
		k.silence = nil
	}
	if size.Rows > 0 && size.Cols > 0 {
		k.redraw(size)
	}
	if k.halted {
		k.wake()
	}
	return true
}

// repaint shows a viewer that was behind what there is now.
func (k *Session) repaint(v *viewer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v.anew(k.past.Show())
	if k.past.FullScreen() && !k.ended {
		k.redraw(k.size)
	}
}

// redrawTime is how long a program has to see that its terminal has another size, which
// is what makes programs draw all of what they show.
const redrawTime = 150 * time.Millisecond

// redraw gives the terminal a size, by way of another one if it has it already. The lock
// is held.
func (k *Session) redraw(size wire.Size) {
	if size != k.size || size.Cols == 1 {
		k.size = size
		_ = k.p.Resize(size)
		return
	}
	_ = k.p.Resize(wire.Size{Rows: size.Rows, Cols: size.Cols - 1})
	time.AfterFunc(redrawTime, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		_ = k.p.Resize(k.size)
	})
}

func (k *Session) control(v *viewer, c wire.Control) {
	if c.Resize != nil && c.Resize.Rows > 0 && c.Resize.Cols > 0 {
		k.mu.Lock()
		k.size = *c.Resize
		_ = k.p.Resize(k.size)
		k.mu.Unlock()
	}
	if c.Signal == unix.SIGCONT {
		k.back(v)
	}
	if c.Signal > 0 && c.Signal < 65 {
		_ = k.p.Signal(c.Signal)
	}
}

func (k *Session) leave(v *viewer) {
	k.mu.Lock()
	k.drop(v)
	k.mu.Unlock()
	k.alone()
}

func (k *Session) drop(v *viewer) {
	if i := slices.Index(k.viewers, v); i >= 0 {
		k.viewers = slices.Delete(k.viewers, i, i+1)
		v.conn.Close()
		v.finish()
	}
	if len(k.viewers) == 0 && k.halted {
		k.wake()
	}
}

// alone sees to it that a program that nobody looks at, and that says nothing any more,
// does not stay for ever.
func (k *Session) alone() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.viewers) == 0 && !k.ended && k.silence == nil && k.idle >= leastIdle {
		k.silence = time.AfterFunc(k.idle, k.bore)
	}
}

// bore ends the program. Its conversation, if it is an agent, can be gone on with.
func (k *Session) bore() {
	k.mu.Lock()
	bored := len(k.viewers) == 0 && !k.ended
	if bored {
		k.bored = true
	}
	k.mu.Unlock()
	if bored {
		k.p.Close()
	}
}

func (k *Session) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	k.goesOn() // nobody is to wait for it
	if k.silence != nil {
		k.silence.Stop()
	}
	k.told, k.viewers = k.viewers, nil
}

// A List is the sessions of a sandbox.
type List struct {
	mu  sync.Mutex
	all []*Session
}

// Add adds a session, until its program has ended.
func (l *List) Add(k *Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, k)
	k.list = l
}

func (l *List) remove(k *Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = slices.DeleteFunc(l.all, func(o *Session) bool { return o == k })
}

// Programs are the names of the programs, and how long the last of them has printed nothing.
func (l *List) Programs() (names []string, silent time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.all {
		names, silent = append(names, k.name), k.silent()
	}
	return names, silent
}

// Attach joins a command to the session that began last.
func (l *List) Attach(c net.Conn, size wire.Size) {
	l.mu.Lock()
	var k *Session
	if n := len(l.all); n > 0 {
		k = l.all[n-1]
	}
	l.mu.Unlock()
	if k == nil {
		_ = wire.NewFrameWriter(c).Message(wire.Event{Failure: &wire.Failure{Code: 125, Message: "nothing to attach to: no program in the sandbox has a terminal of its own"}})
		return
	}
	k.Join(c, size)
}

package supervisor

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/wire"
	"golang.org/x/sys/unix"
)

// A session is a program on a terminal that outlives the commands that look at it. They
// come and go, several at a time; each sees all that is printed and may type. The program's
// terminal has the size of the one that came last, or was changed last.
type session struct {
	p    *wire.Process
	name string // of the program, as it was started

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

	work sync.WaitGroup // who sends to viewers, and listens to them
}

// leastIdle is the shortest time after which a silent program that nobody looks at is
// ended. A sandbox that is there for one program has no idle time to speak of.
const leastIdle = time.Minute

// kept runs a program that others can attach to. It returns when the program has ended.
func (s *Supervisor) kept(client net.Conn, e wire.Exec) {
	alone := e.Log
	e.Log, e.Keep, e.Apart, e.NoInput, e.Merged = false, false, false, false, false
	if e.TTY == nil || e.TTY.Rows == 0 || e.TTY.Cols == 0 {
		e.TTY = &wire.Size{Rows: 24, Cols: 80}
	}
	if !s.enter() {
		return
	}
	defer s.leave()
	s.passes(1)
	defer s.passes(-1)
	notes, err := s.beforeProgram()
	if err != nil {
		_ = wire.NewFrameWriter(client).Message(wire.Event{Failure: failure(err)})
		return
	}
	news, known := s.before()
	p, log, err := s.startDetached(e)
	if err != nil {
		if f, ok := err.(*wire.Failure); ok || alone && !errors.Is(err, errEnding) {
			if !ok {
				f = failure(err)
			}
			_ = wire.NewFrameWriter(client).Message(wire.Event{Failure: f})
		}
		return // without a word, it can be tried again
	}
	s.anew()
	s.Ran(&e)
	defer p.Close()
	k := &session{p: p, name: string(e.Argv[0]), past: terminal.NewReplay(), spoke: time.Now(), size: *e.TTY, idle: s.Sandbox.Limits.Idle}
	s.addSession(k)
	if alone {
		_ = wire.NewFrameWriter(client).Started()
		client.Close()
	} else if v := newViewer(client); k.add(v, wire.Size{}) { // before it can have ended
		k.work.Go(func() { k.listen(v) })
	}
	k.alone()
	p.Stopped = k.halt
	exit, err := p.Wait(k, nil)
	s.dropSession(k)
	viewers := k.end()
	tell := func(words func(*wire.FrameWriter) error) {
		for _, v := range viewers {
			v.say(words)
		}
	}
	if err == nil {
		s.endTurn(&e, exit)
		tell(func(out *wire.FrameWriter) error { return out.Exited(exit) })
	}
	fmt.Fprintf(log, "coffer: %s\n", s.howEnded(k, exit, err))
	s.syncSoon()
	for _, n := range append(append(notes, news...), s.wrapUp(known, &e)...) {
		fmt.Fprintln(log, "coffer:", n)
		tell(func(out *wire.FrameWriter) error { return out.Note(n) })
	}
	tell((*wire.FrameWriter).Lost)
	k.part(viewers)
}

// howEnded says how a session's program ended.
func (s *Supervisor) howEnded(k *session, exit wire.Exit, err error) string {
	switch {
	case err == nil:
		return fmt.Sprintf("exit status %d", exit.Status())
	case k.bored:
		return fmt.Sprintf("nobody was attached to it and it was silent for %s, so it was ended", k.idle)
	}
	return s.whyGone()
}

// part lets the viewers go when they have heard everything, or do not listen: what waits for
// one is bounded, and so is how long it may take nothing of it.
func (k *session) part(viewers []*viewer) {
	for _, v := range viewers {
		v.finish()
	}
	k.work.Wait()
}

// whyGone says why programs have lost their sandbox.
func (s *Supervisor) whyGone() string {
	if why := s.Why(); why != "" {
		return why
	}
	return "the sandbox was ended"
}

func (s *Supervisor) addSession(k *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = append(s.sessions, k)
}

func (s *Supervisor) dropSession(k *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = slices.DeleteFunc(s.sessions, func(o *session) bool { return o == k })
}

// attach joins a command to the program that was kept last.
func (s *Supervisor) attach(c net.Conn, size wire.Size) {
	s.mu.Lock()
	var k *session
	if n := len(s.sessions); n > 0 {
		k = s.sessions[n-1]
	}
	s.mu.Unlock()
	if k == nil {
		_ = wire.NewFrameWriter(c).Message(wire.Event{Failure: &wire.Failure{Code: 125, Message: "nothing to attach to: no program in the sandbox has a terminal of its own"}})
		return
	}
	k.join(c, size)
}

// Write takes what the program prints. It waits for nobody.
func (k *session) Write(p []byte) (int, error) {
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

// silent is how long the program has printed nothing.
func (k *session) silent() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Since(k.spoke)
}

// join has a command see and type until it leaves. One whose terminal has no size gives
// none.
func (k *session) join(c net.Conn, size wire.Size) {
	if v := newViewer(c); k.add(v, size) {
		k.listen(v)
	}
}

// listen takes what a viewer types, until he leaves.
func (k *session) listen(v *viewer) {
	defer k.leave(v)
	in := wire.NewInbox(func(n int) { _ = v.out.Message(wire.Event{Credit: n}) })
	defer in.Close()
	go wire.Copy(k.p, in)
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
func (k *session) add(v *viewer, size wire.Size) bool {
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
func (k *session) repaint(v *viewer) {
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
func (k *session) redraw(size wire.Size) {
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

func (k *session) control(v *viewer, c wire.Control) {
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

func (k *session) leave(v *viewer) {
	k.mu.Lock()
	k.drop(v)
	k.mu.Unlock()
	k.alone()
}

// drop lets a viewer go. The lock is held.
func (k *session) drop(v *viewer) {
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
func (k *session) alone() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.viewers) == 0 && !k.ended && k.silence == nil && k.idle >= leastIdle {
		k.silence = time.AfterFunc(k.idle, k.bore)
	}
}

// bore ends the program. Its conversation, if it is an agent, can be gone on with.
func (k *session) bore() {
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

// end is called when the program has ended. It returns who is to be told.
func (k *session) end() (told []*viewer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	k.goesOn() // nobody is to wait for it
	if k.silence != nil {
		k.silence.Stop()
	}
	told, k.viewers = k.viewers, nil
	return told
}

package halt

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Who is stopped can have himself go on: a timer that was set before sends SIGCONT, which nobody
// can keep from him. So somebody looks, again and again, whether all who have to wait do. One
// that goes on is stopped again, and ended when that has not helped. As such a one may fork
// others that have done nothing yet, or take turns with them, it is counted for all together as
// well.

const (
	every   = 10 * time.Millisecond // there is a look
	enough  = 5                     // looks in which one process ran, before it is ended
	tooMuch = 8                     // looks in which somebody did, before all are
	// long is for a look; what is left over comes first in the next one. A crowd takes that long, and
	// waits anyway.
	long = 100 * time.Millisecond
	// forget is after what time without a watch it is forgotten who went on: somebody may do so
	// in many short ones.
	forget = 10 * time.Second
)

// ErrRestless is about processes that cannot be had to wait.
var ErrRestless = errors.New("programs went on though all had to wait")

// A Watch sees to it that processes which have been stopped stay so.
type Watch struct {
	Proc  *Proc                 // where they are
	All   func() []int          // the processes
	Ended func(sentence string) // is told of one that is about to be killed, and must not take long
	Lost  func()                // ends all of them, when that does not help

	known  map[int]*process
	looks  int
	first  bool      // this one is the first since all were stopped
	uneasy int       // looks in which somebody had gone on
	until  time.Time // there was a watch
}

// process is what is known of one.
type process struct {
	threads map[int]thread
	all     bool // of its threads are known
	settled bool // none had run when they were listed
	from    int  // the thread to begin with
	looked  int  // when
	strikes int
}

type thread struct {
	effort  uint64
	stopped bool
}

// Begin begins to look, after all were stopped. It ends with stop, which waits for a look that is
// under way. A watch can begin again then.
func (w *Watch) Begin() (stop func()) {
	if time.Since(w.until) > forget {
		w.known, w.uneasy = nil, 0
	}
	w.first = true
	w.uneasy /= 2               // of once in a while nobody is accused
	for _, p := range w.known { // they were free to run
		p.threads, p.all, p.settled = map[int]thread{}, false, false
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(every):
			}
			if !w.look() {
				w.Lost()
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		w.until = time.Now()
	}
}

// look looks at all once, or as many as there is time for, and says whether there is hope.
func (w *Watch) look() bool {
	all := w.All()
	ran := w.meet(all)
	w.order(all)
	until := time.Now().Add(long)
	for _, pid := range all {
		p := w.known[pid]
		if p.looked = w.looks; p.look(w.Proc, pid, until) {
			p.strikes++
			ran = true
		}
		if p.strikes >= enough {
			w.Proc.end(pid, "it went on while all programs had to wait", w.Ended)
			p.strikes = 0
		}
		if time.Now().After(until) {
			break
		}
	}
	if ran {
		w.uneasy++
	}
	return w.uneasy < tooMuch
}

// meet takes note of who is there, and says whether somebody has come: who is stopped does not
// fork.
func (w *Watch) meet(all []int) (come bool) {
	first, was := w.first, w.known
	w.first = false
	w.known = make(map[int]*process, len(all))
	w.looks++
	for _, pid := range all {
		p := was[pid]
		if p == nil {
			p = &process{threads: map[int]thread{}}
			if !first {
				p.strikes, come = 1, true
			}
		}
		w.known[pid] = p
	}
	return come
}

// order puts first who was not looked at for the longest time. In every other look those that have
// gone on come before: not in each, or thousands that did so once would have all looks for themselves.
func (w *Watch) order(all []int) {
	turn := func(pid int) int {
		if p := w.known[pid]; w.looks%2 == 0 || p.strikes == 0 {
			return p.looked
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b int) int { return turn(a) - turn(b) })
}

// end kills a process, after it was told why.
func (p *Proc) end(pid int, why string, tell func(sentence string)) {
	name := p.read(strconv.Itoa(pid)+"/comm", make([]byte, 64))
	tell(fmt.Sprintf("%s (process %d) was ended, because %s", strings.TrimSpace(string(name)), pid, why))
	_ = p.send(pid, 0, unix.SIGKILL)
}

// EndRunning kills those of some processes that are not stopped, though they were told to: a system call
// that takes long is not interrupted by that. tell is told of each.
func (p *Proc) EndRunning(pids []int, tell func(sentence string)) {
	for _, pid := range pids {
		tids, _ := p.numbers(strconv.Itoa(pid) + "/task")
		runs := slices.ContainsFunc(tids, func(tid int) bool {
			s := p.look(threadDir(pid, tid))
			return !s.stopped && !s.over
		})
		if runs {
			p.end(pid, "it was in a system call that nobody can stop, and the disk went on filling up", tell)
		}
	}
}

// look looks at the threads of a process, and says whether one ran since the last look.
func (p *process) look(in *Proc, pid int, until time.Time) (ran bool) {
	if p.settled && p.rests(in, pid, until) {
		return false
	}
	tids, _ := in.numbers(strconv.Itoa(pid) + "/task")
	now := make(map[int]thread, len(tids))
	p.settled = p.all && len(tids) > 0
	for i := range tids {
		if i > 0 && time.Now().After(until) { // then more of them, the next time
			p.from += i
			p.settled = false
			return ran
		}
		tid := tids[(p.from+i)%len(tids)]
		was, known := p.threads[tid]
		t, goesOn := was.look(in, pid, tid, known)
		now[tid], p.threads[tid] = t, t
		ran = ran || goesOn && (known || p.all)
		p.settled = p.settled && known && t.effort == was.effort
	}
	p.threads, p.all = now, true
	return ran
}

// rests says whether no thread of a process has run since the last look. They need not be listed for
// that: who makes another one runs. Among thousands of processes it saves most of the time.
func (p *process) rests(in *Proc, pid int, until time.Time) bool {
	for tid, t := range p.threads {
		if in.effort(threadDir(pid, tid)) != t.effort {
			return false
		}
		if time.Now().After(until) {
			break // the others have their turn: the order is another one each time
		}
	}
	return true
}

func threadDir(pid, tid int) string { return strconv.Itoa(pid) + "/task/" + strconv.Itoa(tid) + "/" }

// look says whether a thread goes on though it was told to stop, and tells it so if it has not
// heard yet. It is told by a signal of its own: one to its process waits for a single thread,
// which may be in the middle of something, while all others run. And for as long as its own
// signal waits for it, it cannot have left the kernel: then what it does is one system call that
// takes long, and nothing that is held against it.
func (was thread) look(in *Proc, pid, tid int, known bool) (t thread, goesOn bool) {
	dir := threadDir(pid, tid)
	effort := in.effort(dir)
	if known && effort == was.effort {
		return was, false
	}
	s := in.look(dir)
	t = thread{effort, s.stopped}
	if s.over {
		return t, false
	}
	runs := !s.stopped && !s.told
	if runs {
		_ = in.send(pid, tid, unix.SIGSTOP)
	}
	return t, runs || !known || was.stopped
}

// effort grows whenever a thread runs, and only then: its time on a processor, in nanoseconds, and
// how often it got there. Where the kernel does not count that so, it is clock ticks and how
// often it was taken off.
func (p *Proc) effort(dir string) (sum uint64) {
	text := p.read(dir+"schedstat", make([]byte, 128))
	if f := strings.Fields(string(text)); len(f) == 3 && f[0] != "0" {
		return number(f[0]) + number(f[2])
	}
	if f := p.stat(dir); len(f) > 12 {
		sum = number(f[11]) + number(f[12])
	}
	status := p.status(dir)
	return sum + number(field(status, "voluntary_ctxt_switches")) + number(field(status, "nonvoluntary_ctxt_switches"))
}

// state is that of a thread.
type state struct {
	stopped bool // or traced
	over    bool // it ends, or has ended
	told    bool // SIGSTOP waits for it
}

func (p *Proc) look(dir string) (s state) {
	const exiting = 0x4 // PF_EXITING
	f := p.stat(dir)
	if len(f) < 7 {
		return state{over: true}
	}
	s.stopped = f[0] == "T" || f[0] == "t"
	s.over = f[0] == "Z" || f[0] == "X" || number(f[6])&exiting != 0
	if !s.stopped && !s.over {
		s.told = hex(field(p.status(dir), "SigPnd"))&(1<<(unix.SIGSTOP-1)) != 0
	}
	return s
}

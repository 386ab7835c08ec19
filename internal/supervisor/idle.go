package supervisor

import (
	"sync"
	"time"
)

// firstUse is how long a new sandbox waits for its first program.
const firstUse = 10 * time.Second

// activity counts what goes on in a sandbox, and decides when it ends for being idle. It is open
// until it is ending: then no program starts any more. One that came behind the request to end
// would not hear of it and be killed without a warning, so to be let in and to end are decided
// under one lock, and a program that was let in is waited for until the guest has it.
type activity struct {
	idleTime  time.Duration
	settingUp func() bool   // what runs now sets the sandbox up for another program
	busy      func() bool   // programs were left in the background, or the sandbox is frozen
	rested    chan struct{} // closed when the sandbox was idle for long enough

	mu       sync.Mutex
	ending   bool
	programs int  // that commands wait for
	starting int  // of those, that the guest is being given
	visits   int  // connections through forwards
	used     bool // a program has run that was no set-up
	timer    *time.Timer
	changed  chan struct{} // closed at the next change
}

func newActivity(idle time.Duration) *activity {
	no := func() bool { return false }
	return &activity{idleTime: idle, settingUp: no, busy: no, rested: make(chan struct{}), changed: make(chan struct{})}
}

// enter counts a program, unless the sandbox is ending.
func (a *activity) enter() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ending {
		return false
	}
	a.used = !a.settingUp()
	a.count(&a.programs, 1)
	return true
}

func (a *activity) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count(&a.programs, -1)
}

// letIn says whether a program may be handed to the guest. If so, handed is called when the
// guest has it, or did not take it.
func (a *activity) letIn() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ending {
		a.count(&a.starting, 1)
	}
	return !a.ending
}

func (a *activity) handed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count(&a.starting, -1)
}

// visit counts connections from outside.
func (a *activity) visit(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count(&a.visits, n)
}

// end lets no program start any more.
func (a *activity) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ending = true
}

// running is how many programs run.
func (a *activity) running() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.programs
}

func (a *activity) isEnding() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ending
}

// wait waits until a counter is zero, the channel is closed, or patience is over.
func (a *activity) wait(counter *int, over <-chan struct{}, patience time.Duration) {
	late := time.After(patience)
	for {
		a.mu.Lock()
		n, changed := *counter, a.changed
		a.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-changed:
		case <-over:
			return
		case <-late:
			return
		}
	}
}

// count changes a counter, and starts or stops the idle time. The lock is held.
func (a *activity) count(counter *int, n int) {
	*counter += n
	close(a.changed)
	a.changed = make(chan struct{})
	a.rest()
}

// rest starts the idle time if nothing goes on. The lock is held.
func (a *activity) rest() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	if a.programs > 0 || a.visits > 0 {
		return
	}
	wait := a.idleTime
	if !a.used {
		wait = max(wait, firstUse)
	}
	a.again(wait)
}

// again looks after a time whether the sandbox is still idle. The lock is held.
func (a *activity) again(wait time.Duration) {
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() { a.idle(func() bool { return a.timer == timer }, max(wait, time.Second)) })
	a.timer = timer
}

// idle ends a sandbox whose idle time is over. Where programs were left in the background, it
// looks again after another idle time.
func (a *activity) idle(still func() bool, again time.Duration) {
	busy := a.busy()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ending || !still():
	case busy:
		a.again(again)
	default:
		a.ending = true
		close(a.rested)
	}
}

// start starts the idle time of a sandbox in which nothing has run yet.
func (a *activity) start() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rest()
}

package supervisor

import (
	"errors"
	"time"

	"github.com/cofferhq/coffer/internal/wire"
)

// A sandbox that is about to end takes no more programs: one that came behind the word to end
// would not hear it, and be killed without a warning. Whoever is refused comes again, to the
// sandbox's next start. So to be let in and to end are decided under one lock, and a program
// that was let in is waited for until the guest has it.

// errEnding is for a program that came too late. It was not started.
var errEnding = errors.New("the sandbox is being stopped")

// end has no program start any more. It returns a channel that is closed when those that
// were let in before have been started.
func (s *Supervisor) end() (started <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	if s.started == nil {
		s.started = make(chan struct{})
		if s.starting == 0 {
			close(s.started)
		}
	}
	return s.started
}

// letIn says whether a program may be handed to the guest. If so, handed is called when the
// guest has it, or did not take it.
func (s *Supervisor) letIn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	s.starting++
	return true
}

func (s *Supervisor) handed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting--
	if s.starting == 0 && s.started != nil {
		close(s.started)
	}
}

// enter and leave count what runs; a sandbox in which nothing does is stopped after
// its idle time. Nobody enters one that is about to end.
func (s *Supervisor) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	s.execs++
	s.late = false
	s.preparing = s.idleTime < firstUse && s.isSettingUp()
	s.watchLogin()
	if s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
	return true
}

func (s *Supervisor) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.execs--
	s.rest()
}

// busy says whether a program runs.
func (s *Supervisor) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.execs > 0
}

// rest starts the idle time. The lock is held.
func (s *Supervisor) rest() {
	if s.execs > 0 || s.idle != nil {
		return
	}
	s.restLogin()
	wait := s.idleTime
	if s.preparing {
		wait = firstUse // for what it was set up for
	}
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() { s.idled(&timer, max(wait, time.Second)) })
	s.idle = timer
}

// idled ends a sandbox whose idle time is over. Where programs were left in the background, it is not
// idle, and looked at again after as long. The lock guards timer.
func (s *Supervisor) idled(timer **time.Timer, again time.Duration) {
	var left wire.Background
	if !s.forOneProgram() {
		left, _ = s.background()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.idle != *timer: // something has run since
	case s.visits > 0:
		s.idle, s.late = nil, true
	case left.Count > 0 || s.frozen() != "":
		s.idle.Reset(again)
	default:
		s.stopping = true
		s.resting.Do(func() { close(s.rested) })
	}
}

// background asks the guest for programs that no command waits for.
func (s *Supervisor) background() (wire.Background, error) {
	if s.session == nil {
		return wire.Background{}, errors.New("the sandbox is not up")
	}
	if why := s.frozen(); why != "" {
		return wire.Background{}, errors.New(why)
	}
	e, err := s.askGuest(wire.Request{Op: wire.OpBackground}, surveyPatience)
	if err == nil && e.Background == nil {
		err = errors.New("the guest did not say what runs")
	}
	if err != nil {
		return wire.Background{}, err
	}
	// A guest is a stranger's by now.
	e.Background.Count = max(e.Background.Count, 0)
	e.Background.Names = e.Background.Names[:min(len(e.Background.Names), wire.MaxNames)]
	return *e.Background, nil
}

// visitors counts connections from outside: a sandbox that is used by somebody is not
// idle. When the last leaves, the idle time starts anew.
func (s *Supervisor) visitors(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.visits += n
	switch {
	case s.visits > 0:
	case s.idle != nil:
		// The one program that the sandbox is there for may not have come yet.
		s.idle.Reset(max(s.idleTime, firstUse))
	case s.late:
		s.late = false
		s.rest()
	}
	if s.visits == 0 && s.left != nil {
		close(s.left)
		s.left = nil
	}
}

// LetFinish waits a moment for connections from outside to end, when the program that
// served them has. Its last answer may still be on the way.
func (s *Supervisor) LetFinish() {
	s.mu.Lock()
	if s.visits == 0 {
		s.mu.Unlock()
		return
	}
	if s.left == nil {
		s.left = make(chan struct{})
	}
	left := s.left
	s.mu.Unlock()
	select {
	case <-left:
	case <-s.instance.Done():
	case <-time.After(lastAnswers):
	}
}

// lastAnswers is how long a sandbox that ends waits for connections that end too.
const lastAnswers = 500 * time.Millisecond

// surveyPatience is how long the guest may take to answer, and guestPatience how long it may
// take to do something.
const (
	surveyPatience = time.Second
	guestPatience  = 20 * time.Second
)

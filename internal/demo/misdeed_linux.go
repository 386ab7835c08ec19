package demo

import (
	"errors"
	"syscall"
)

// A misdeed is something that an agent should not be able to do.
type misdeed struct {
	name  string
	title string // for the table
	who   who    // for whom it makes sense
	asks  bool   // the control only asks whether it would work
	// try does it, inside or outside alike, and brings back what it found.
	try func(t target) (loot string, err error)
	// harm looks at the victim afterwards, from outside.
	harm func(s *stage, r report) bool
	// wall is what was built against it.
	wall string
}

type who int

const (
	anybody  who = iota
	root         // an ordinary user is refused by the host itself
	ordinary     // root has no need of it
)

func (w who) applies(uid int) bool {
	return w == anybody || (w == root) == (uid == 0)
}

// misdeeds are what a user's agent tries, in this order. Those that spoil the stage for
// others come after them: the process is killed when its environment has been read,
// and the daemon is the last.
func misdeeds(uid int) []misdeed {
	var all []misdeed
	for _, group := range [][]misdeed{secrets, files, machine} {
		for _, m := range group {
			if m.who.applies(uid) {
				all = append(all, m)
			}
		}
	}
	return all
}

// attempt tries a misdeed and reports.
func (m misdeed) attempt(t target) *report {
	loot, err := m.try(t)
	r := &report{Name: m.name, Loot: loot}
	if err != nil {
		var errno syscall.Errno
		if r.Errno = -1; errors.As(err, &errno) {
			r.Errno = int(errno)
		}
	}
	return r
}

// reason is an error without the paths.
func reason(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}

// brought is the harm of misdeeds that bring back a secret of the stage.
func brought(secret func(s *stage) string) func(*stage, report) bool {
	return func(s *stage, r report) bool { return r.Loot == secret(s) }
}

// worked is the harm of misdeeds whose only witness is the kernel's answer.
func worked(_ *stage, r report) bool { return r.Errno == 0 }

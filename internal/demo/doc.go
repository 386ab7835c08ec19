// Package demo shows what a sandbox stops, truthfully.
//
// The play has a stage and an agent. The [stage] is a throw-away directory with a fake home (keys,
// credentials, a shell rc, a small repository with a failing test) and, on this host, a few dummies
// that belong to it: a process, two services on 127.0.0.1, two sockets. The agent is this same
// binary in a hidden role. It mends the test, and then tries every [misdeed] of a list, in plain
// system calls, and reports what each of them returned.
//
// The agent plays twice, each time on a fresh stage. First bare, as any program that the user
// starts: this is the control, and it shows that a misdeed works here and that we would notice.
// Then through "coffer run", the way everybody uses it. The verdict comes from looking at the
// victim afterwards, from outside: did the secret come back, has the file changed, does the process
// live. The wall that is named is the one that was built against the misdeed.
//
// A misdeed that does not work bare either, because this machine refuses it anyway,
// proves nothing and is not counted.
//
// Nothing of the real user is touched. The few misdeeds whose control would be
// dangerous on the host say what they do instead.
package demo

import (
	"errors"
	"io"
	"time"
)

// ErrThrough is returned by Run when a misdeed got through, or the honest work did
// not. The screen has told which.
var ErrThrough = errors.New("the sandbox did not hold what it promises")

// Options say how to show the play.
type Options struct {
	Program string    // coffer itself
	Screen  io.Writer // where to show it
	Color   bool
	Pace    time.Duration // a moment for the eye between lines
}

// The hidden command under which the binary plays a role: "demo act ROLE ARG".
const ActCommand = "act"

// target tells the agent where it is and whom to harm.
type target struct {
	Bare    bool   // no sandbox is around it: leave the machine itself alone
	Home    string // the home
	Work    string // the repository
	Notes   string // a file of the user's beside the repository
	Process int    // a process of the user's
	Port    int    // a service on 127.0.0.1
	// Collector is where somebody on the internet would take what was stolen: a port of
	// 127.0.0.1 that plays him.
	Collector int
	Socket    string // a socket like the one of ssh-agent
	Abstract  string // a socket without a file, like the one of X11
	Token     string // the stage's own word, by which things are recognised
}

// A line is what the agent prints, one JSON object each.
type line struct {
	Step   *step   `json:",omitempty"`
	Report *report `json:",omitempty"`
}

// A step is a piece of honest work, as the agent saw it.
type step struct {
	Name   string
	Done   bool
	Detail string
}

// A report is what a misdeed returned to the agent.
type report struct {
	Name  string
	Errno int    // 0 if the system call went well
	Loot  string // what it brought back
}

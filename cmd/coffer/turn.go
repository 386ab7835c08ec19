package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/wire"
)

// waitsAfter is how long an agent on a terminal prints nothing when it waits for its user: while it
// works, it shows that it does.
const waitsAfter = 10 * time.Second

// turn is what the agent of a sandbox was told last, and what became of that.
type turn struct {
	Agent   string    `json:"agent"`
	Prompt  string    `json:"prompt,omitempty"` // its first words
	State   string    `json:"state,omitempty"`  // working, waiting for you, done, failed (CODE); empty if it was cut off
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Exit    int       `json:"exit,omitempty"`
}

// last is when something was last known of the turn.
func (t *turn) last() time.Time {
	if t.Ended.IsZero() {
		return t.Started
	}
	return t.Ended
}

// turnOf is the last turn of a sandbox's agent, nil if there was none. st is nil if the sandbox does
// not run.
func turnOf(sb *sandbox.Sandbox, st *wire.Status) *turn {
	seen, err := agent.ReadTrace(sb.Dir())
	if err != nil {
		return nil
	}
	t := &turn{Agent: seen.Agent, Prompt: seen.Prompt, Started: seen.Last, Ended: seen.Ended, Exit: seen.Exit}
	switch {
	case t.Ended.IsZero() && (st == nil || st.Execs == 0):
	case t.Ended.IsZero() && slices.Contains(st.Programs, seen.Program) && st.Silent >= waitsAfter:
		t.State = "waiting for you"
	case t.Ended.IsZero():
		t.State = "working"
	case t.Exit == 0:
		t.State = "done"
	default:
		t.State = fmt.Sprintf("failed (%d)", t.Exit)
	}
	return t
}

// state is what a listing says: how the agent is doing, unless the sandbox has something to say itself.
func (d *described) state() string {
	switch {
	case d.Turn == nil || d.Turn.State == "":
	case d.State == "stopped" || d.State == "idle" || d.State == "running" && d.Turn.Ended.IsZero():
		return d.Turn.State
	}
	return d.State
}

// turnColumns are the columns that listings have if there are agents.
func turnColumns(t *turn) []string {
	if t == nil {
		return []string{"-", "-"}
	}
	return []string{t.Agent, age(t.last())}
}

// times says when a turn began, and how it ended.
func (t *turn) times() string {
	text := "began " + age(t.Started) + " ago"
	switch {
	case !t.Ended.IsZero():
		text += fmt.Sprintf(", ended %s ago with exit status %d", age(t.Ended), t.Exit)
	case t.State == "":
		text += ", and was cut off"
	}
	return text
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"github.com/spf13/cobra"
)

type standing struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	State     string    `json:"state"`
	Agent     string    `json:"agent,omitempty"`
	Turn      *turn     `json:"turn,omitempty"` // its last
	Last      time.Time `json:"last_activity"`
	Branch    string    `json:"branch,omitempty"`
	Workspace string    `json:"workspace,omitempty"`
	Mode      string    `json:"mode"`
	Work      string    `json:"work"` // what there is of it, in words
	Network   string    `json:"network"`
	Programs  int       `json:"programs,omitempty"`
}

func statusCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status [MATCH]",
		Short: "Say how a sandbox and the work in it are doing",
		Long: `Say how a sandbox is doing: which agent works in it, on which branch, what there is to
see of it, what the network allows. Inside a sandbox, it says where one is, and what was
refused lately.`,
		Example: "  coffer status parser",
		RunE: func(c *cobra.Command, args []string) error {
			if id := os.Getenv("COFFER_SANDBOX"); id != "" {
				return statusInside(id)
			}
			sb, err := forName.chosen(first(args))
			if err != nil {
				return err
			}
			d, l, work := describe(sb, false), look(sb), outcome(sb)
			if work == sb.Name {
				work = "" // what was done in the user's own directory is not known from what he did there
			}
			s := standing{
				ID: sb.ID, Name: sb.Name, State: d.State, Turn: d.Turn, Agent: l.agent, Last: l.last, Branch: l.branch,
				Workspace: sb.Workspace.Path, Mode: sb.Workspace.Mode, Work: work, Network: sb.Network.Describe(), Programs: d.Execs,
			}
			if asJSON {
				return printJSON(s)
			}
			printStanding(s, d.state())
			sayIncluded(c.Context(), sb, "review")
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printStanding(s standing, state string) {
	var w ui.Table
	row := w.Row
	if s.Programs > 0 {
		state += ", " + count(s.Programs, "program")
	}
	row("sandbox", s.Name+" ("+s.ID+")")
	row("state", state)
	row("agent", s.Agent)
	if t := s.Turn; t != nil {
		row("prompt", t.Prompt)
		row("turn", t.times())
	}
	row("active", age(s.Last)+" ago")
	row("branch", s.Branch)
	row("workspace", s.Workspace)
	row("work", s.Work)
	row("network", s.Network)
	if s.Agent != "" {
		row("go on", "coffer ai -m "+s.Name)
	}
	_ = w.Print(stdout)
}

// statusInside prints what programs were told at the start, and what the network refused lately.
func statusInside(id string) error {
	text, err := os.ReadFile(filepath.Join(os.Getenv("HOME"), agent.Guide))
	if err == nil {
		fmt.Fprintln(stdout, strings.TrimSuffix(strings.TrimRight(string(text), "\n"), "\n`coffer status` tells this again."))
	} else {
		fmt.Fprintf(stdout, "This is the Coffer sandbox %s.\n", id)
	}
	client := http.Client{Timeout: 3 * time.Second}
	r, err := client.Get("http://" + link.AboutName + "/denials")
	if err != nil {
		fmt.Fprintln(stdout, "\nThere is no network.")
		return nil
	}
	defer r.Body.Close()
	var denials []struct {
		Host   string `json:"host"`
		Count  int    `json:"count"`
		Reason string `json:"reason"`
	}
	if json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&denials) != nil || len(denials) == 0 {
		fmt.Fprintln(stdout, "\nNothing was refused lately.")
		return nil
	}
	fmt.Fprintln(stdout, "\nRefused lately:")
	for _, d := range denials {
		fmt.Fprintf(stdout, "- %s, %s: %s\n", d.Host, count(d.Count, "time"), d.Reason)
	}
	return nil
}

// waitsAfter is how long an agent on a terminal prints nothing before it counts as waiting for its user.
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

// turnOf is the last turn of a sandbox's agent, or nil. st is nil if the sandbox does not run.
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

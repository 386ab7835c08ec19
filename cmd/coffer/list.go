package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/network"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"github.com/spf13/cobra"
)

type described struct {
	sandbox.Record
	State      string           `json:"state"` // stopped, starting, running, idle, suspended or frozen
	Dir        string           `json:"dir"`
	PID        int              `json:"pid,omitempty"` // the supervisor's
	Since      *time.Time       `json:"running_since,omitempty"`
	Execs      int              `json:"execs,omitempty"`
	Background *wire.Background `json:"background,omitempty"` // programs that no command waits for
	Turn       *turn            `json:"turn,omitempty"`       // what its agent does
	Frozen     string           `json:"frozen,omitempty"`     // why its programs are
	Listening  []wire.Port      `json:"listening,omitempty"`  // inside
	Git        *git.Standing    `json:"git,omitempty"`
	Included   []included       `json:"included,omitempty"`
	Running    []wire.Daemon    `json:"daemons_running,omitempty"`
	// Only show has these.
	Live    []policy.RuleSource `json:"live_rules,omitempty"` // by 'coffer policy'
	Engine  string              `json:"engine,omitempty"`
	Budgets []network.Spent     `json:"budgets,omitempty"`
}

// describe asks a sandbox's supervisor, if it has one, how it is, and with ports what listens inside.
func describe(sb *sandbox.Sandbox, ports bool) described {
	d := described{Record: sb.Record, State: "stopped", Dir: sb.Dir(), Turn: turnOf(sb, nil)}
	if !sb.Running() {
		return d
	}
	d.State = "running"
	line, err := wire.Connect(sb)
	if err != nil {
		d.State = "starting"
		return d
	}
	defer line.Close()
	if wire.Suspended(sb) {
		d.State = "suspended"
		return d
	}
	st, err := line.Status(ports)
	if err != nil {
		d.State = "starting"
		return d
	}
	d.PID, d.Since, d.Execs, d.Running, d.Frozen = st.PID, &st.Since, st.Execs, st.Daemons, st.Frozen
	d.Turn = turnOf(sb, st)
	if st.Background.Count > 0 {
		d.Background = &st.Background
	}
	switch {
	case d.Frozen != "":
		d.State = "frozen"
	case !d.Ephemeral && !d.Once && d.Execs == 0 && d.Background == nil && len(d.Running) == 0:
		d.State = "idle"
	}
	if st.Ports != nil {
		d.Listening, d.Forwards = st.Ports.Listening, nil
		for _, f := range st.Ports.Forwards {
			d.Forwards = append(d.Forwards, sandbox.Forward(f))
		}
	}
	return d
}

func describeAll(all []*sandbox.Sandbox, ports bool) []described {
	const atOnce = 32
	list := make([]described, len(all))
	places := make(chan struct{}, atOnce)
	var asking sync.WaitGroup
	for i, sb := range all {
		places <- struct{}{}
		asking.Go(func() {
			list[i] = describe(sb, ports)
			<-places
		})
	}
	asking.Wait()
	return list
}

func listCommand() *cobra.Command {
	var asJSON, quiet bool
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the sandboxes",
		Long: `List the sandboxes. One that is running has a program in it, one that is idle waits for
its next command, with nothing left in its background, one that is frozen has no room on a
disk, one that is suspended was stopped by Ctrl-Z; one that is stopped is started by
'coffer exec'. In a git repository its branch is there too, how many commits that has
which yours has not and the other way round, and how many files are not committed.

Where an agent was, the state is its: working, waiting for you (on a terminal, when it
has printed nothing for ten seconds), done, or failed with its exit code. TURN is how
long ago it began its last turn or, if that is over, ended it.`,
		Example: "  coffer list\n  coffer ls --json | jq -r '.[] | select(.state!=\"stopped\") | .name'",
		RunE: func(c *cobra.Command, _ []string) error {
			store, err := openStore()
			if err != nil {
				return err
			}
			tidyTrees(c.Context(), store)
			all, errs := store.List()
			switch {
			case asJSON:
				list := describeAll(all, true)
				addStandings(c.Context(), all, list)
				err = printJSON(list)
			case quiet:
				for _, sb := range all {
					fmt.Fprintln(stdout, sb.ID)
				}
			default:
				list := describeAll(all, true)
				addStandings(c.Context(), all, list)
				if len(list)+len(errs) == 0 {
					fmt.Fprintln(os.Stderr, "there are no sandboxes; make one with 'coffer exec --create'")
				}
				width, _, _ := terminal.Size(1)
				_ = listing(list, width).Print(stdout)
			}
			if err == nil && len(errs) > 0 {
				err = status(125)
			}
			for _, e := range errs {
				report(e)
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "print ids only")
	return c
}

func printJSON(v any) error { return ui.JSON(stdout, v) }

// listing is the table of sandboxes, of which a terminal gets what fits; a width of 0 is all.
func listing(list []described, width int) ui.Table {
	if len(list) == 0 {
		return nil
	}
	git := slices.ContainsFunc(list, func(d described) bool { return d.Git != nil || len(d.Included) > 0 })
	agents := slices.ContainsFunc(list, func(d described) bool { return d.Turn != nil })
	var t ui.Table
	row := func(columns, turn, about []string, ports, place, prompt string) {
		if agents {
			columns = append(columns, turn...)
		}
		if git {
			columns = append(columns, about...)
		}
		columns = append(columns, ports, place)
		if agents {
			columns = append(columns, prompt)
		}
		t.Add(columns...)
	}
	row([]string{"ID", "NAME", "STATE", "AGE", "MODE"}, []string{"AGENT", "TURN"}, []string{"BRANCH", "AHEAD/BEHIND", "DIRTY", "REPOSITORY"}, "PORTS", "WORKSPACE", "PROMPT")
	for _, d := range list {
		about, place := gitColumns(d.Git), d.Workspace.Path
		if width > 0 {
			about[3], place = fromHome(about[3]), fromHome(place)
			if git && place == about[3] {
				place = "-" // the repository says enough
			}
		}
		if d.Workspace.Mode == sandbox.WorkspaceTree {
			place = "-" // 'coffer cd' tells
		}
		turn, prompt := []string{"-", "-"}, "-"
		if d.Turn != nil {
			turn, prompt = []string{d.Turn.Agent, age(d.Turn.last())}, cmp.Or(d.Turn.Prompt, "-")
		}
		row([]string{d.ID, d.Name, d.state(), age(d.Created), d.Workspace.Mode}, turn, about, portsText(d), place, prompt)
		for _, i := range d.Included {
			about := gitColumns(&i.Standing)
			if width > 0 {
				about[3] = fromHome(about[3])
			}
			row([]string{"", "+" + i.Name, "", "", ""}, []string{"", ""}, about, "", "-", "")
		}
	}
	if width > 0 {
		t = t.Fit(width, "MODE", "ID", "AGE", "WORKSPACE", "PORTS", "REPOSITORY", "DIRTY", "AHEAD/BEHIND", "BRANCH", "AGENT", "TURN")
	}
	return t
}

// fromHome is a path as people write it.
func fromHome(path string) string {
	home := sandbox.Me().Home
	if rest, ok := strings.CutPrefix(path, home+"/"); ok && home != "" {
		return "~/" + rest
	}
	return path
}

// age is how long ago something was, in its largest unit.
func age(t time.Time) string {
	d := time.Since(t)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/session"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

func showCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show [MATCH]",
		Short: "Show one sandbox in detail",
		Long: `Show one sandbox in detail: what runs in it, what it sees and may reach, its limits,
its ports, and where its files are.`,
		Example: "  coffer show parser",
		RunE: onSandbox(func(c *cobra.Command, sb *sandbox.Sandbox) error {
			d := describe(sb, true)
			d.Engine = wall()
			err := d.addNetwork(sb)
			all := []described{d}
			addStandings(c.Context(), []*sandbox.Sandbox{sb}, all)
			if asJSON {
				return errors.Join(printJSON(all[0]), err)
			}
			printShow(all[0])
			return err
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printShow(d described) {
	var t ui.Table
	row := t.Row
	row("id", d.ID)
	row("name", d.Name)
	row("state", d.state())
	row("frozen", d.Frozen)
	row("supervisor", d.supervisor())
	row("engine", d.Engine)
	if !d.Image.None() {
		row("image", d.Image.Ref+" ("+d.Image.Digest+")")
	}
	row("created", d.Created.Format(time.RFC3339))
	row("workspace", strings.TrimSpace(d.Workspace.Path+" ("+d.Workspace.Mode+")"))
	for _, m := range d.Mounts {
		row("mount", describeMount(&d.Record, m))
	}
	for _, c := range d.Caches {
		row("cache", c.Target+" is filled from "+c.Source+"; changes stay inside")
	}
	showDaemons(d, row)
	showGit(d, row)
	row("command", strings.Join(d.Command, " "))
	row("folder", d.Dir)
	showNetwork(d, row)
	showOpenings(d, row)
	showLimits(d.Limits, row)
	if d.Nesting {
		row("nesting", "allowed")
	}
	_ = t.Print(stdout)
}

// supervisor is who keeps a sandbox running, and what runs in it.
func (d *described) supervisor() string {
	process := fmt.Sprintf("process %d", d.PID)
	switch {
	case d.PID == 0:
		return ""
	case d.Execs > 0 || d.Background != nil:
		return process + ", running " + d.programs()
	case len(d.Running) > 0:
		return process + ", running nothing but daemons"
	case d.State == "idle":
		return process + ", idle"
	}
	return process
}

// programs are those that run, of which the ones in the background have names.
func (d *described) programs() string {
	var what []string
	if d.Execs > 0 {
		what = append(what, count(d.Execs, "program"))
	}
	if b := d.Background; b != nil {
		what = append(what, count(b.Count, "program")+" in the background: "+strings.Join(b.Names, ", "))
		if more := b.Count - len(b.Names); more > 0 {
			what = append(what, fmt.Sprintf("%d more", more))
		}
	}
	return strings.Join(what, ", and ")
}

func showGit(d described, row func(name, value string)) {
	if g := d.Git; g != nil {
		columns := gitColumns(g)
		row("repository", g.Repository)
		row("branch", columns[0])
		row("ahead, behind", columns[1])
		if what := "not committed"; g.Dirty != nil {
			if d.Workspace.Mode == sandbox.WorkspaceCOW {
				what = "not applied"
			}
			row(what, columns[2])
		}
	}
	for _, i := range d.Included {
		columns := gitColumns(&i.Standing)
		row("included", fmt.Sprintf("%s: %s on %s, %s, %s not committed, in %s", i.Name, i.Repository, columns[0], columns[1], columns[2], i.Dir))
	}
}

func showLimits(l sandbox.Limits, row func(name, value string)) {
	limit := func(name string, set bool, format string, value any) {
		if set {
			row(name, fmt.Sprintf(format, value))
		}
	}
	limit("memory limit", l.Memory > 0, "%d bytes", l.Memory)
	limit("process limit", l.Pids > 0, "%d", l.Pids)
	limit("cpu limit", l.CPUs > 0, "%v", l.CPUs)
	limit("file limit", l.OpenFiles > 0, "%d", l.OpenFiles)
	limit("time limit", l.Timeout > 0, "%s", l.Timeout)
	limit("kept free", l.KeepFree > 0, "%d bytes of each disk, or half of what was free at the start", l.KeepFree)
	limit("kept free", l.KeepFree < 0, "%s", "nothing of a disk")
}

func daemonLog(sb *sandbox.Sandbox, name string) (string, error) {
	var names []string
	for _, d := range sb.Daemons {
		if d.Name == name {
			return session.DaemonLog(sb, name), nil
		}
		names = append(names, d.Name)
	}
	if len(names) == 0 {
		return "", ui.Error(fmt.Sprintf("sandbox %s has no daemons", sb.Name), "they are made by [daemons.NAME] in coffer.toml, for new sandboxes")
	}
	return "", ui.Error(fmt.Sprintf("sandbox %s has no daemon %q", sb.Name, name), "it has "+strings.Join(names, ", "))
}

func showDaemons(d described, row func(name, value string)) {
	states := map[string]string{}
	for _, r := range d.Running {
		states[r.Name] = r.State
		if r.Restarts > 0 {
			states[r.Name] += ", started again " + count(r.Restarts, "time")
		}
		if r.Last != "" {
			states[r.Name] += ", ended last with " + r.Last
		}
	}
	for _, one := range d.Daemons {
		state := states[one.Name]
		if state == "" {
			state = "not running"
		}
		row("daemon", one.Name+": "+strings.Join(one.Command, " ")+" ("+state+")")
	}
}

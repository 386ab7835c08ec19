package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/cofferhq/coffer/internal/changes"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

// A copy-on-write sandbox keeps its changes in a layer of its own until the user decides.

// forChanges is about sandboxes with changes of their own.
var forChanges = choice{
	kind: "copy-on-write ",
	keep: func(sb *sandbox.Sandbox) bool { return sb.Workspace.Mode == sandbox.WorkspaceCOW },
	none: "make one with 'coffer run --workspace cow'",
}

func chooseCOW(c *cobra.Command, args []string) (*sandbox.Sandbox, error) {
	store, err := openStore()
	if err != nil {
		return nil, err
	}
	sb, err := forChanges.exactly(c, store, first(args))
	if err != nil || sb.Workspace.Mode == sandbox.WorkspaceCOW {
		return sb, err
	}
	return nil, ui.Error(fmt.Sprintf("sandbox %s is not copy-on-write: there is nothing to %s", sb.Name, c.Name()),
		fmt.Sprintf("see 'coffer merge %s' and 'coffer undo %s', or use --workspace cow when you make a sandbox", sb.Name, sb.Name))
}

// named puts the sandbox that -m names where the first word does otherwise.
func named(match string, args []string) []string {
	if match == "" {
		return args
	}
	return append([]string{match}, args...)
}

type changedFile struct {
	Path    string `json:"path"`
	Kind    string `json:"kind"`
	Skipped string `json:"skipped,omitempty"`
}

func printChanges(list []changedFile, asJSON bool) error {
	if asJSON {
		return printJSON(append([]changedFile{}, list...))
	}
	for _, f := range list {
		fmt.Fprintf(stdout, "%-12s %s\n", f.Kind, terminal.Escape(f.Path))
	}
	return nil
}

// none takes a sandbox that was never started for one without changes.
func none(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func rest(args []string) []string { return args[min(1, len(args)):] }

// fromTop are paths relative to the top of the workspace, also those that the user wrote in full.
func fromTop(sb *sandbox.Sandbox, paths []string) []string {
	paths = slices.Clone(paths)
	for i, p := range paths {
		if in, err := filepath.Rel(sb.Workspace.Path, p); err == nil && filepath.IsAbs(p) && filepath.IsLocal(in) {
			paths[i] = in
		}
	}
	return paths
}

func applyCommand() *cobra.Command {
	var force, dry bool
	var match string
	c := &cobra.Command{
		Use:   "apply [NAME] [PATH…]",
		Short: "Bring the changes of a copy-on-write sandbox into the workspace",
		Long: `Apply what a copy-on-write sandbox has changed. Nothing is applied if something
changed on both sides. Git directories, devices and set-user-id bits never are.
Paths are relative to the top of the workspace. No program may run in the sandbox; one
that only waits for its next command is stopped.`,
		Example: "  coffer apply parser\n  coffer apply parser src/main.go\n  coffer apply -m parser src/main.go",
		RunE: func(c *cobra.Command, args []string) error {
			args = named(match, args)
			sb, err := chooseCOW(c, args)
			if err != nil {
				return err
			}
			ctx, stop := interruptible(c)
			defer stop()
			return apply(ctx, sb, changes.ApplyOptions{Paths: fromTop(sb, rest(args)), Force: force, DryRun: dry})
		},
	}
	c.Flags().BoolVar(&force, "force", false, "overwrite what changed in the workspace meanwhile")
	c.Flags().BoolVarP(&dry, "dry-run", "n", false, "only say what would be done")
	matchFlag(c, &match)
	return c
}

func lockStopped(sb *sandbox.Sandbox) (*sandbox.Lock, error) {
	lock, err := sb.Lock()
	if errors.Is(err, sandbox.ErrRunning) {
		err = ui.Error(fmt.Sprintf("sandbox %s is running", sb.Name), "stop it first with 'coffer stop "+sb.Name+"'")
	}
	return lock, err
}

// lockIdle is lockStopped for a sandbox that may wait for its next command: it is stopped.
func lockIdle(ctx context.Context, sb *sandbox.Sandbox) (*sandbox.Lock, error) {
	if err := stopIdle(ctx, sb); err != nil {
		return nil, err
	}
	return lockStopped(sb)
}

// apply brings changes over. While it runs, nobody starts the sandbox.
func apply(ctx context.Context, sb *sandbox.Sandbox, o changes.ApplyOptions) error {
	lock, err := lockIdle(ctx, sb)
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := guardApply(ctx, sb, o.Paths); err != nil {
		return err
	}
	hidden, close, err := hiddenFrom(ctx, &sb.Record)
	if err != nil {
		return err
	}
	defer close()
	o.Masked = hidden
	stamps := filepath.Join(sb.Dir(), "applied.json")
	o.Known, o.Since, o.Clear = changes.Stamps{}, sb.Created, !o.DryRun
	if known, err := os.ReadFile(stamps); err == nil {
		_ = json.Unmarshal(known, &o.Known) // without it, more counts as a conflict, not less
	}
	done := ui.Busy("applying changes")
	result, err := changes.Apply(ctx, sb.Workspace.Path, sb.Upper(), o)
	done()
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
		if len(o.Paths) > 0 {
			err = fmt.Errorf("%s: %w", changes.Quote(o.Paths[0]), changes.ErrNoMatch)
		}
	}
	for _, c := range result.Applied {
		fmt.Fprintf(stdout, "%-12s %s\n", c.Kind, terminal.Escape(changes.Quote(c.Path)))
	}
	for _, c := range result.Skipped {
		fmt.Fprintf(os.Stderr, "left out: %s (%s)\n", terminal.Escape(changes.Quote(c.Path)), c.Skipped)
	}
	for _, n := range result.Notes {
		fmt.Fprintf(os.Stderr, "note: %s: %s\n", terminal.Escape(changes.Quote(n.Path)), terminal.Escape(n.Text))
	}
	if !o.DryRun {
		err = errors.Join(err, writeStamps(stamps, o.Known, result.Stamps))
	}
	var conflict *changes.ConflictError
	switch {
	case errors.Is(err, changes.ErrNoMatch):
		return ui.Hint(err, "paths are relative to the top of the workspace; see 'coffer diff --names %s'", sb.Name)
	case errors.As(err, &conflict):
		return ui.Hint(err, "see 'coffer diff %s', then overwrite your version with --force or apply other paths", sb.Name)
	}
	if err != nil || o.DryRun || len(o.Paths) > 0 || !sb.Once {
		return err
	}
	if n := len(result.Skipped); n > 0 {
		fmt.Fprintf(os.Stderr, "coffer: %s left out and still in sandbox %s; drop it with 'coffer discard %s'\n", count(n, "change"), sb.Name, sb.Name)
		return nil
	}
	return lock.Remove(purge)
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// writeStamps remembers what was applied, by rename.
func writeStamps(path string, known, more changes.Stamps) error {
	if len(more) == 0 {
		return nil
	}
	maps.Copy(known, more)
	b, err := json.Marshal(known)
	if err != nil {
		return err
	}
	return safepath.File{Path: path, Alone: true}.Write(b)
}

func discardCommand() *cobra.Command {
	var match string
	c := &cobra.Command{
		Use: "discard [NAME]", Args: cobra.ArbitraryArgs, ValidArgsFunction: completeSandbox,
		Short: "Drop the changes of a copy-on-write sandbox",
		Long: `Drop all changes that wait in a copy-on-write sandbox. The workspace stays as it is. A
sandbox that was made for one run goes with them; another one stays. No program may run
in it; one that only waits for its next command is stopped.`,
		Example: "  coffer discard parser",
		RunE: func(c *cobra.Command, args []string) error {
			args = named(match, args)
			sb, err := chooseCOW(c, args)
			if err != nil {
				return err
			}
			if len(args) > 1 {
				return usagef("discard takes one sandbox and no paths: it drops all of its changes")
			}
			lock, err := lockIdle(c.Context(), sb)
			if err != nil {
				return err
			}
			defer lock.Release()
			if sb.Once {
				return lock.Remove(purge)
			}
			defer ui.Busy("dropping changes")()
			return none(changes.Discard(sb.Upper(), filepath.Join(sb.Layers(), "workspace", "work")))
		},
	}
	matchFlag(c, &match)
	return c
}

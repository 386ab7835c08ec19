package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/changes"
	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

func masksCommand() *cobra.Command {
	var match string
	var asJSON, past bool
	c := &cobra.Command{
		Use:   "masks [-m MATCH]",
		Short: "List the files that sandboxes cannot read, and why",
		Long: `List the files that a sandbox over the current directory could not read, replace,
rename or remove, each with the line that says so: of .sandboxignore, of a config file,
or built in. With -m, those that are hidden from a sandbox. With --history, those that
commits of the repository have added, which can be read in git's objects.`,
		Example: `  coffer masks
  coffer masks --history
  coffer masks -m parser --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if past {
				return showHistory(c.Context(), match, asJSON)
			}
			list, root, err := listMasks(c.Context(), match)
			if err != nil {
				return err
			}
			supervisor.MarkTracked(list, root)
			if asJSON {
				return printJSON(list)
			}
			return printMasks(list, root)
		},
	}
	matchFlag(c, &match)
	c.Flags().BoolVar(&past, "history", false, "list files in git's history that would be hidden")
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return c
}

// listMasks lists what is hidden, and the directory that it is about.
func listMasks(ctx context.Context, match string) (list []supervisor.Hidden, root string, err error) {
	var rec sandbox.Record
	if match == "" {
		rec, err = maskedHere()
	} else {
		var sb *sandbox.Sandbox
		if sb, err = findSandbox(match); err == nil {
			if line, err := supervisor.Connect(sb); err == nil {
				defer line.Close()
				if list, err = supervisor.Masked(line); err == nil {
					return list, sb.Workspace.Path, nil
				}
			}
			rec = sb.Record
		}
	}
	if err != nil {
		return nil, "", err
	}
	list = []supervisor.Hidden{}
	if rec.Workspace.Mode == sandbox.WorkspaceNone {
		return list, "", nil
	}
	tree, err := supervisor.OpenMasks(&rec)
	if err != nil {
		return nil, "", err
	}
	defer tree.Close()
	r, err := tree.Scan(ctx)
	if err != nil {
		return nil, "", supervisor.MaskProblem(err)
	}
	for _, f := range tree.Set.Refused() {
		for _, line := range f.Lines {
			notAgreed(line, "shows only what its own file hides")
		}
	}
	for _, f := range r.Hidden {
		list = append(list, supervisor.Hidden{Path: filepath.Join(tree.Root, f.Path), Dir: f.Dir, Rule: f.Rule, From: f.From})
	}
	return list, tree.Root, nil
}

func findSandbox(match string) (*sandbox.Sandbox, error) {
	store, err := openStore()
	if err != nil {
		return nil, err
	}
	return store.Find(match)
}

// maskedHere is a sandbox over the current directory, as far as it is about masks. What
// the user has not agreed to does not count.
func maskedHere() (rec sandbox.Record, err error) {
	places, err := placesHere()
	if err != nil {
		return rec, err
	}
	rec.Workspace = sandbox.Workspace{Path: places.Dir, Mode: sandbox.WorkspaceDirect}
	l, err := places.Load()
	if err != nil || l == nil {
		return rec, err
	}
	rec.Masks = l.Masks()
	agreed, err := agreedTo(places, l)
	if err != nil {
		return rec, err
	}
	if shows := l.MasksShown(); len(shows) > 0 && !agreed {
		rec.Masks.Rules = slices.DeleteFunc(rec.Masks.Rules, func(m sandbox.Mask) bool {
			return slices.ContainsFunc(shows, func(r mask.Rule) bool { return r.From == m.From && r.Text == m.Line })
		})
		for _, r := range shows {
			if file, _, _ := strings.Cut(r.From, ":"); filepath.Base(file) != mask.FileName { // who looks through the tree tells those
				notAgreed(r, "does not count")
			}
		}
	}
	return rec, nil
}

func notAgreed(r mask.Rule, so string) {
	fmt.Fprintf(os.Stderr, "coffer: warning: %s: %s %s until you agree; see 'coffer trust'\n", terminal.Escape(r.From), pattern(r.Text), so)
}

// pattern is a line that says what to hide, as it was written: backslashes mean something
// there.
func pattern(line string) string {
	return strings.ReplaceAll(terminal.Content(line), "\t", `\x09`)
}

// agreedTo says whether the user has agreed to what the repository's files ask for.
func agreedTo(places config.Places, l *config.Loaded) (bool, error) {
	widens, err := l.Widens(passesAnyway)
	if err != nil || len(widens) == 0 {
		return true, err
	}
	store, err := places.TrustStore()
	if err != nil {
		return false, nil
	}
	return store.Has(l, widens)
}

func printMasks(list []supervisor.Hidden, root string) error {
	if len(list) == 0 {
		fmt.Fprintln(os.Stderr, "nothing is hidden")
		return nil
	}
	var t ui.Table
	tracked := 0
	for _, h := range list {
		path := h.Path
		if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) {
			path = rel
		}
		if h.Dir {
			path += "/"
		}
		note := ""
		if h.Tracked {
			note = "in git"
			tracked++
		}
		t = append(t, []string{terminal.Escape(path), terminal.Escape(h.From) + ": " + pattern(h.Rule), note})
	}
	err := t.Print(stdout)
	if tracked > 0 {
		warn(fmt.Sprintf("git has %s of these: programs in a sandbox can read them, and earlier versions, in its history; take them out of it, and change what they give away", count(tracked, "file")))
	}
	return err
}

// hiddenFrom says what of a workspace is hidden from a sandbox, until it is done.
func hiddenFrom(ctx context.Context, sb *sandbox.Sandbox) (hidden changes.Masked, done func(), err error) {
	tree, err := supervisor.OpenMasks(&sb.Record)
	if err != nil {
		return nil, nil, err
	}
	covered, err := supervisor.Covered(ctx, tree)
	if err != nil {
		tree.Close()
		return nil, nil, err
	}
	return func(path string, dir bool) bool { return covered(path) || tree.Hides(path, dir) != nil }, tree.Close, nil
}

// writeIgnore writes the file that says what to hide, unless there is one.
func writeIgnore(root string) error {
	err := config.Create(root, mask.FileName, mask.Starter(), false)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return ui.Hint(fmt.Errorf("write %s: %w", mask.FileName, err), "what is built in is hidden without it")
	}
	fmt.Fprintf(os.Stderr, "coffer: wrote %s\n", terminal.Escape(filepath.Join(root, mask.FileName)))
	return nil
}

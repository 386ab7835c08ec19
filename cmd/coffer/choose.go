package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

// choice is how a command finds the sandbox that the user means.
type choice struct {
	kind string                      // what kind it must be, with a space, or nothing
	keep func(*sandbox.Sandbox) bool // which ones can be meant at all
	none string                      // what to do when there is none here
	many string                      // what to do when there are several
}

var (
	forExec = choice{none: "make one with --create, or choose another with -m", many: "choose one with -m"}
	forName = choice{none: "name one: see 'coffer ls'", many: "name one of them"}
)

type (
	noneHere struct{ error } // no sandbox is over the current directory, nor of its repository
	noMatch  struct{ error } // no sandbox has the word in its name
)

// choose finds a sandbox by a word, or by where the user is: in a sandbox's worktree, on its
// workspace, or else in the repository that it has a worktree of.
func (c choice) choose(store *sandbox.Store, match string) (*sandbox.Sandbox, error) {
	if match != "" {
		sb, err := store.Find(match)
		if errors.Is(err, sandbox.ErrNotFound) {
			return nil, ui.Hint(noMatch{fmt.Errorf("no sandbox matches %q", match)}, "see 'coffer ls'")
		}
		return sb, err
	}
	here, err := spotHere()
	if err != nil {
		return nil, err
	}
	all, errs := store.List()
	if len(all) == 0 && len(errs) == 1 && !errors.As(errs[0], new(*sandbox.BrokenError)) {
		return nil, errs[0] // the store cannot be read
	}
	owned := slices.ContainsFunc(all, here.ownedBy)
	if c.keep != nil {
		all = slices.DeleteFunc(all, func(sb *sandbox.Sandbox) bool { return !c.keep(sb) })
	}
	hits := only(all, here.in)
	if len(hits) == 0 && !owned {
		hits = only(all, here.near)
	}
	switch {
	case len(hits) == 1:
		return hits[0], nil
	case len(hits) > 1:
		return nil, ui.Hint(fmt.Errorf("several sandboxes work on %s:\n%s", terminal.Escape(here.dir), listed(hits)), "%s", c.many)
	}
	err = noneHere{fmt.Errorf("there is no %ssandbox over %s", c.kind, here.dir)}
	if above := only(all, here.below); len(above) > 0 {
		return nil, ui.Hint(err, "%s; sandbox %s lies over %s", c.none, above[0].Name, above[0].Workspace.Path)
	}
	return nil, ui.Hint(err, "%s", c.none)
}

// chosen is choose in the user's store.
func (c choice) chosen(match string) (*sandbox.Sandbox, error) {
	store, err := openStore()
	if err != nil {
		return nil, err
	}
	return c.choose(store, match)
}

// only are those of the sandboxes that are meant.
func only(all []*sandbox.Sandbox, meant func(*sandbox.Sandbox) bool) (hits []*sandbox.Sandbox) {
	for _, sb := range all {
		if meant(sb) {
			hits = append(hits, sb)
		}
	}
	return hits
}

// listed is a line for each sandbox that could be meant.
func listed(all []*sandbox.Sandbox) string {
	var t ui.Table
	for _, sb := range all {
		what := sb.Workspace.Mode
		if b, err := git.Open(sb.Dir()); err == nil && sb.Workspace.Mode == sandbox.WorkspaceTree {
			what += " on " + b.Branch
		}
		t.Add(sb.ID, sb.Name, what)
	}
	var lines strings.Builder
	_ = t.Print(&lines)
	return strings.TrimSuffix(lines.String(), "\n")
}

// matchFlag is for commands whose other words are no names of sandboxes, or need not be.
func matchFlag(c *cobra.Command, match *string) {
	c.Flags().StringVarP(match, "match", "m", "", "the sandbox whose id starts with `MATCH`, or whose name contains it")
	_ = c.RegisterFlagCompletionFunc("match", completeSandbox)
}

// exactFlag is matchFlag for commands that want a whole name.
func exactFlag(c *cobra.Command, match *string) {
	c.Flags().StringVarP(match, "match", "m", "", "the sandbox, by its `NAME` or id")
	_ = c.RegisterFlagCompletionFunc("match", completeSandbox)
}

// completeSandbox offers the names of sandboxes to the shell.
func completeSandbox(_ *cobra.Command, given []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	for _, sb := range allSandboxes() {
		if !slices.Contains(given, sb.Name) {
			names = append(names, sb.Name+"\t"+sb.Workspace.Path)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// allSandboxes are those whose records can be read.
func allSandboxes() []*sandbox.Sandbox {
	store, err := peekStore()
	if err != nil {
		return nil
	}
	all, _ := store.List()
	return all
}

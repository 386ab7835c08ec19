package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/hint"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
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

// noneHere says that there is no sandbox over the current directory.
type noneHere string

func (n noneHere) Error() string { return string(n) }

// choose finds a sandbox by a word, or by where the user is.
func (c choice) choose(store *sandbox.Store, match string) (*sandbox.Sandbox, error) {
	if match != "" {
		sb, err := store.Find(match)
		if errors.Is(err, sandbox.ErrNotFound) {
			return nil, hint.Wrap(fmt.Errorf("no sandbox matches %q", match), "see 'coffer ls'")
		}
		return sb, err
	}
	here, err := os.Getwd()
	if err == nil {
		here, err = filepath.EvalSymlinks(here)
	}
	if err != nil {
		return nil, hint.Wrap(fmt.Errorf("find the current directory: %w", err), "change to a directory that exists")
	}
	// Worktrees are not over the directory they were made in, but that is where they are meant.
	all, _ := store.List()
	none := len(all) == 0
	hits := slices.DeleteFunc(all, func(sb *sandbox.Sandbox) bool { return !over(sb, here) })
	if c.keep != nil {
		hits = slices.DeleteFunc(hits, func(sb *sandbox.Sandbox) bool { return !c.keep(sb) })
	}
	switch len(hits) {
	case 0:
		if none && c.kind == "" {
			return nil, hint.Wrap(noneHere("there is no sandbox over "+here+", nor anywhere else"), "make one with 'coffer exec --create'")
		}
		return nil, hint.Wrap(noneHere("there is no "+c.kind+"sandbox over "+here), "%s", c.none)
	case 1:
		return hits[0], nil
	}
	var t table
	for _, sb := range hits {
		t.add(sb.ID, sb.Name, sb.Workspace.Mode)
	}
	var lines strings.Builder
	t.print(&lines)
	return nil, hint.Wrap(fmt.Errorf("several sandboxes lie over %s:\n%s", terminal.Escape(here), strings.TrimSuffix(lines.String(), "\n")), "%s", c.many)
}

// completeSandbox offers the names of sandboxes to the shell.
func completeSandbox(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if dir, err := sandbox.DefaultDir(); err == nil {
		if store, err := sandbox.Open(dir); err == nil {
			all, _ := store.List()
			for _, sb := range all {
				names = append(names, sb.Name+"\t"+sb.Workspace.Path)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
)

// lookTime is how long a listing waits for git to look at worktrees.
const lookTime = 3 * time.Second

// included is a repository that a sandbox includes, as listings show it.
type included struct {
	Name string `json:"name"`
	Dir  string `json:"dir"` // its worktree
	git.Standing
}

// addStandings adds how branches stand, those of included repositories too.
func addStandings(ctx context.Context, all []*sandbox.Sandbox, list []described) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	var bridges []*git.Bridge
	var of []int // whose
	for i, sb := range all {
		if !sb.HasGit() {
			continue
		}
		if b, err := git.Open(sb.Dir()); err == nil {
			bridges, of = append(bridges, b), append(of, i)
		}
		for _, b := range git.Included(sb.Dir()) {
			bridges, of = append(bridges, b), append(of, i)
		}
	}
	if len(bridges) == 0 {
		return
	}
	var looking sync.WaitGroup
	standings := map[*git.Bridge]*git.Standing{}
	looking.Go(func() { standings = git.Standings(ctx, bridges) })
	const atOnce = 8
	dirty, places := make([]*int, len(bridges)), make(chan struct{}, atOnce)
	for i, b := range bridges {
		looking.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			dirty[i] = countDirty(ctx, all[of[i]], b)
		})
	}
	looking.Wait()
	for i, b := range bridges {
		s, d := standings[b], &list[of[i]]
		s.Dirty = dirty[i]
		if b.Include != "" {
			d.Included = append(d.Included, included{b.Include, b.Tree, *s})
		} else {
			d.Git = s
		}
	}
}

// countDirty counts uncommitted files, or unapplied ones; -1 if unknown. In a user's own directory nobody looks.
func countDirty(ctx context.Context, sb *sandbox.Sandbox, b *git.Bridge) *int {
	var n int
	var err error
	switch {
	case b.Include != "" || sb.Workspace.Mode == sandbox.WorkspaceTree:
		n, err = b.Dirty(ctx)
	case sb.Workspace.Mode == sandbox.WorkspaceCOW:
		n, err = countWaiting(ctx, sb)
	default:
		return nil
	}
	if err != nil {
		n = -1
	}
	return &n
}

// sayIncluded names the included repositories that have changes too, with a command to see them.
func sayIncluded(ctx context.Context, sb *sandbox.Sandbox, command string) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	all := git.Included(sb.Dir())
	standings := git.Standings(ctx, all)
	for _, b := range all {
		s, dirty := standings[b], *countDirty(ctx, sb, b)
		commits, verb, where, word := s.Ahead > 0 && !s.Merged || b.Behind(), "has", "", command
		switch taking := command == "merge" || command == "rebase"; {
		case taking && commits:
			where = b.Where() // which is where it can be done
		case taking:
			word = "diff"
		}
		switch {
		case commits || dirty > 0:
		case s.Ahead < 0 || dirty < 0: // nobody could tell
			verb = "may have"
		default:
			continue
		}
		fmt.Fprintf(os.Stderr, "coffer: %s %s changes too: see 'coffer %s %s'%s\n", b.Include, verb, word, b.Words(), terminal.Escape(where))
	}
}

// gitColumns are the columns that listings have if something has a git directory.
func gitColumns(g *git.Standing) []string {
	if g == nil {
		return []string{"-", "-", "-", "-"}
	}
	branch, parted, dirty := "-", "-", "-"
	if g.Branch != "" {
		branch, parted = g.Branch, "?"
	}
	if g.Branch != "" && g.Ahead >= 0 {
		parted = fmt.Sprintf("+%d -%d", g.Ahead, g.Behind)
	}
	if g.Merged {
		parted += ", merged"
	}
	switch {
	case g.Dirty == nil:
	case *g.Dirty < 0:
		dirty = "?"
	default:
		dirty = fmt.Sprint(*g.Dirty)
	}
	return []string{branch, parted, dirty, g.Repository}
}

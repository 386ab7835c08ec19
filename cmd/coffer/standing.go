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
	of := map[*git.Bridge]int{} // whose
	for i, sb := range all {
		if !sb.HasGit() {
			continue
		}
		for _, b := range bridgesOf(sb.Dir()) {
			bridges, of[b] = append(bridges, b), i
		}
	}
	standings := git.Standings(ctx, bridges)
	var looking sync.WaitGroup
	places := make(chan struct{}, 8)
	for _, b := range bridges {
		looking.Go(func() {
			places <- struct{}{}
			standings[b].Dirty = countDirty(ctx, all[of[b]], b)
			<-places
		})
	}
	looking.Wait()
	for _, b := range bridges {
		if d := &list[of[b]]; b.Include != "" {
			d.Included = append(d.Included, included{b.Include, b.Tree, *standings[b]})
		} else {
			d.Git = standings[b]
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
		s, dirty, verb, word, where := standings[b], *countDirty(ctx, sb, b), "has", command, ""
		commits := s.Ahead > 0 && !s.Merged || b.Behind()
		if taking := command == "merge" || command == "rebase"; taking && commits {
			where = b.Where() // which is where it can be done
		} else if taking {
			word = "diff"
		}
		if !commits && dirty <= 0 {
			if s.Ahead >= 0 && dirty == 0 {
				continue
			}
			verb = "may have"
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

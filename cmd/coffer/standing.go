package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cofferhq/coffer/internal/gitbridge"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// lookTime is how long a listing waits for git to look at worktrees.
const lookTime = 3 * time.Second

// addStandings says of those sandboxes that have a git directory how they stand.
func addStandings(ctx context.Context, all []*sandbox.Sandbox, list []described) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	var bridges []*gitbridge.Bridge
	of := map[int]*gitbridge.Bridge{}
	for i, sb := range all {
		if !sb.HasGit() {
			continue
		}
		if b, err := gitbridge.Open(sb.Dir()); err == nil {
			bridges, of[i] = append(bridges, b), b
		}
	}
	if len(bridges) == 0 {
		return
	}
	var looking sync.WaitGroup
	standings := map[*gitbridge.Bridge]*gitbridge.Standing{}
	looking.Go(func() { standings = gitbridge.Standings(ctx, bridges) })
	const atOnce = 8
	dirty, places := make([]int, len(all)), make(chan struct{}, atOnce)
	for i, b := range of {
		looking.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			n, err := b.Dirty(ctx)
			if dirty[i] = n; err != nil {
				dirty[i] = -1
			}
		})
	}
	looking.Wait()
	for i, b := range of {
		list[i].Git = standings[b]
		list[i].Git.Dirty = dirty[i]
	}
}

// gitColumns are the columns that listings have if something has a git directory.
func gitColumns(g *gitbridge.Standing) []string {
	if g == nil {
		return []string{"-", "-", "-", "-"}
	}
	branch, parted, dirty := "-", "-", fmt.Sprint(g.Dirty)
	if g.Branch != "" {
		branch, parted = g.Branch, fmt.Sprintf("+%d -%d", g.Ahead, g.Behind)
	}
	if g.Dirty < 0 {
		dirty = "?"
	}
	return []string{branch, parted, dirty, g.Repository}
}

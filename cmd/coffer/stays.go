package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
)

// patienceStays is how long a new sandbox waits to hear what stays outside.
const patienceStays = time.Second

// stays looks, while the worktree is made, which files it will not have because they are not
// committed. A person at a terminal is told: an agent would work on what was before. In a
// repository that is so large that it takes long, nobody waits for it.
func (p *plannedTree) stays(ctx context.Context, rec sandbox.Record) (say func()) {
	if p.told || !terminal.IsTerminal(2) || p.flags.carry || p.flags.base != "" || p.repository.Top == "" {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	found := make(chan int, 1)
	go func() {
		if paths, err := p.carryable(ctx, rec); err == nil {
			found <- len(paths)
		}
	}()
	return func() {
		defer stop()
		late := time.NewTimer(patienceStays)
		defer late.Stop()
		select {
		case n := <-found:
			them := "them"
			if n == 1 {
				them = "it"
			}
			if n > 0 {
				fmt.Fprintf(os.Stderr, "coffer: %s not committed, and not in the sandbox; --carry brings %s along\n", are(n, "file"), them)
			}
		case <-late.C:
		}
	}
}

// carryable lists what --carry would bring along: never a secret, which is hidden in any case.
func (p *plannedTree) carryable(ctx context.Context, rec sandbox.Record) ([]string, error) {
	paths, err := p.repository.Uncommitted(ctx, p.base)
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	rec.Workspace.Path = p.repository.Top
	masks, err := supervisor.OpenMasks(&rec)
	if err != nil {
		return nil, err
	}
	defer masks.Close()
	return slices.DeleteFunc(paths, func(path string) bool {
		return slices.Contains(p.carrying.Named, path) || masks.Hides(path, false) != nil
	}), nil
}

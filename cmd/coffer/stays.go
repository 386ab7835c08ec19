package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/cofferhq/coffer/internal/terminal"
)

// patienceStays is how long a new sandbox waits to hear what stays outside.
const patienceStays = time.Second

// stays looks, while the worktree is made, which files it will not have because they are not
// committed. A person at a terminal is told: an agent would work on what was before. In a
// repository that is so large that it takes long, nobody waits for it.
func (p *plannedTree) stays(ctx context.Context) (say func()) {
	if !terminal.IsTerminal(2) || p.flags.carry || p.flags.base != "" || p.repository.Top == "" {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	found := make(chan int, 1)
	go func() {
		paths, err := p.repository.Uncommitted(ctx, p.base)
		if err == nil {
			found <- len(slices.DeleteFunc(paths, func(path string) bool { return slices.Contains(p.carrying.Named, path) }))
		}
	}()
	return func() {
		defer stop()
		late := time.NewTimer(patienceStays)
		defer late.Stop()
		select {
		case n := <-found:
			if n > 0 {
				fmt.Fprintf(os.Stderr, "coffer: %s not committed, and not in the sandbox; --carry brings them along\n", are(n, "file"))
			}
		case <-late.C:
		}
	}
}

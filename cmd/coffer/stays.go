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

// sayStays tells a person at a terminal which files a new worktree does not have because they are
// not committed: an agent would work on what was before. In a large repository it is not waited for.
func (p *plannedTree) sayStays(ctx context.Context, rec sandbox.Record) {
	if p.told || !terminal.IsTerminal(2) || p.flags.carry || p.flags.base != "" || p.repository.Top == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if paths, err := p.carryable(ctx, rec); err == nil && len(paths) > 0 {
		fmt.Fprintf(os.Stderr, "coffer: %s not committed, and not in the sandbox; see --carry\n", are(len(paths), "file"))
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

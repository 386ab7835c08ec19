package main

import (
	"context"
	"fmt"
	"os"

	"github.com/cofferhq/coffer/internal/gitbridge"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/spf13/cobra"
)

func gcCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "gc",
		Short: "Remove what is left of sandboxes that are gone",
		Long: `Remove what is left of sandboxes that are gone: of those whose processes were killed,
and of those whose worktree you deleted. Other commands do so too. A sandbox with
commits that were not brought over is kept, and so is every branch.`,
		Example: "  coffer gc",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			store, err := openStore()
			if err != nil {
				return err
			}
			err = store.Sweep(purge)
			tidyTrees(c.Context(), store)
			return err
		},
	}
}

// tidyTrees removes the sandboxes whose worktree somebody deleted, from an editor perhaps:
// that is how users of worktrees say that they are done with one.
func tidyTrees(ctx context.Context, store *sandbox.Store) {
	all, _ := store.List()
	for _, sb := range all {
		if sb.Workspace.Mode != sandbox.WorkspaceTree {
			continue
		}
		if _, err := os.Lstat(sb.Workspace.Path); !os.IsNotExist(err) {
			continue
		}
		b, err := gitbridge.Open(sb.Dir())
		if err != nil || !b.Gone() {
			continue // it is being made, or was moved
		}
		if b.Behind() {
			fmt.Fprintf(os.Stderr, "coffer: the worktree of sandbox %s is gone, and commits in it were not brought over; remove it with 'coffer rm --force %s'\n", sb.Name, sb.Name)
			continue
		}
		if err := stop(ctx, sb, true); err != nil {
			continue
		}
		if removeStopped(sb, false) != nil || b.Forget(ctx, false) != nil {
			continue // by the next command
		}
		fmt.Fprintf(os.Stderr, "coffer: sandbox %s was removed, because its worktree is gone; branches with commits stay\n", terminal.Escape(sb.Name))
	}
}

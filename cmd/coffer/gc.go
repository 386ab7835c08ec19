package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/spf13/cobra"
)

func gcCommand() *cobra.Command {
	var branches bool
	c := &cobra.Command{
		Use:   "gc",
		Short: "Remove what is left of sandboxes that are gone",
		Long: `Remove what is left of sandboxes that are gone: of those whose processes were killed,
and of those whose worktree or folder you deleted, in the repository here and in those
that sandboxes work on. Other commands do most of it too. A sandbox with commits that
were not brought over is kept, and so is every branch that is merged nowhere. Branches
coffer/NAME of the repository here, of sandboxes that are gone, are deleted if all of
their commits are on a branch of yours and you agree; stashes and tags are named.`,
		Example: "  coffer gc",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			store, err := openStore()
			if err != nil {
				return err
			}
			err = store.Sweep(purge)
			tidyTrees(c.Context(), store)
			err = errors.Join(err, sweepIncluded(c.Context(), store), images().Sweep(c.Context()))
			return errors.Join(err, forgetOrphans(c.Context(), store), offerLeft(c, store, branches))
		},
	}
	c.Flags().BoolVar(&branches, "branches", false, "delete merged branches of sandboxes that are gone, without asking")
	return c
}

// tidyTrees removes the sandboxes whose worktree somebody deleted, from an editor perhaps:
// that is how users of worktrees say that they are done with one.
func tidyTrees(ctx context.Context, store *sandbox.Store) {
	all, _ := store.List()
	for _, sb := range all {
		tidyIncluded(ctx, sb)
		if sb.Workspace.Mode != sandbox.WorkspaceTree {
			continue
		}
		if _, err := os.Lstat(sb.Workspace.Path); !os.IsNotExist(err) {
			continue
		}
		b, err := git.Open(sb.Dir())
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
		if _, err := removeStopped(ctx, sb, false); err != nil {
			continue // by the next command
		}
		fmt.Fprintf(os.Stderr, "coffer: sandbox %s was removed, because its worktree is gone; branches with commits stay\n", terminal.Escape(sb.Name))
	}
}

// tidyIncluded takes out the repositories whose worktree somebody deleted.
func tidyIncluded(ctx context.Context, sb *sandbox.Sandbox) {
	for _, b := range git.Included(sb.Dir()) {
		switch {
		case !b.Gone() || sb.Running():
		case b.Behind():
			fmt.Fprintf(os.Stderr, "coffer: the worktree of repository %s of sandbox %s is gone, and commits in it were not brought over; take it out with 'coffer uninclude --force %s -m %s'\n", b.Include, sb.Name, b.Include, sb.Name)
		case uninclude(ctx, sb, b.Include, true, false) == nil:
			fmt.Fprintf(os.Stderr, "coffer: repository %s was taken out of sandbox %s, because its worktree is gone; branches with commits stay\n", b.Include, terminal.Escape(sb.Name))
		}
	}
}

// sweepIncluded removes what is left of repositories in whose including, or taking out,
// somebody was killed. Both do so too.
func sweepIncluded(ctx context.Context, store *sandbox.Store) error {
	var errs []error
	all, _ := store.List()
	for _, sb := range all {
		if !git.Includes(sb.Dir()) {
			continue
		}
		unlock, err := git.LockIncluded(ctx, sb.Dir(), purgeFiles)
		if errors.Is(err, git.ErrRemoved) {
			continue
		}
		if err == nil {
			unlock()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// forgetOrphans takes what sandboxes whose folders were deleted have left out of the
// repository here, and of those that are known.
func forgetOrphans(ctx context.Context, store *sandbox.Store) error {
	common := map[string]bool{}
	if here, err := os.Getwd(); err == nil {
		if r, err := repositoryAt(ctx, store, here); err == nil {
			common[r.Common] = true
		}
	}
	all, _ := store.List()
	for _, sb := range all {
		bridges := git.Included(sb.Dir())
		if b, err := git.Open(sb.Dir()); err == nil {
			bridges = append(bridges, b)
		}
		for _, b := range bridges {
			common[b.Common] = true
		}
	}
	var errs []error
	for dir := range common {
		for _, b := range git.Orphans(ctx, dir, store.Dir()) {
			errs = append(errs, b.Forget(ctx, false))
			fmt.Fprintf(os.Stderr, "coffer: what the deleted sandbox %s had left in %s was removed\n", b.ID, terminal.Escape(dir))
			sayStayed(b)
		}
	}
	return errors.Join(errs...)
}

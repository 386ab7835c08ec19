package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
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

// tidyTrees removes the sandboxes whose worktree the user deleted.
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

func tidyIncluded(ctx context.Context, sb *sandbox.Sandbox) {
	for _, b := range git.Included(sb.Dir()) {
		switch {
		case !b.Gone() || sb.Running():
		case b.Behind():
			fmt.Fprintf(os.Stderr, "coffer: the worktree of repository %s of sandbox %s is gone, and commits in it were not brought over; take it out with %s\n", b.Include, sb.Name, ui.Command("coffer uninclude --force", b.Include, "-m", sb.Name))
		case uninclude(ctx, sb, b.Include, true, false) == nil:
			fmt.Fprintf(os.Stderr, "coffer: repository %s was taken out of sandbox %s, because its worktree is gone; branches with commits stay\n", b.Include, terminal.Escape(sb.Name))
		}
	}
}

// sweepIncluded removes what a killed include or uninclude left.
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

// forgetOrphans removes what deleted sandboxes left in the repository here and in those of other sandboxes.
func forgetOrphans(ctx context.Context, store *sandbox.Store) error {
	common := map[string]bool{}
	if r, err := repositoryAt(ctx, store, "."); err == nil {
		common[r.Common] = true
	}
	all, _ := store.List()
	for _, sb := range all {
		for _, b := range bridgesOf(sb.Dir()) {
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

// offerLeft deletes merged branches of sandboxes that are gone, if the user agrees, and names stashes and tags.
func offerLeft(c *cobra.Command, store *sandbox.Store, yes bool) error {
	r, err := repositoryAt(c.Context(), store, ".")
	if err != nil {
		return nil // there is none
	}
	names, branches := living(store)
	merged, err := r.MergedLeft(c.Context(), func(branch string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(branch, "coffer/"), "@")
		return names[name] || branches[branch]
	})
	if err == nil && len(merged) > 0 {
		err = deleteMerged(c, r, merged, yes)
	}
	if err != nil {
		return err
	}
	kept, err := r.KeptIn(c.Context())
	sayAside(slices.DeleteFunc(kept, func(k git.Kept) bool { return names[k.Sandbox] }), "")
	return err
}

// living are the names of the sandboxes there are, and their branches.
func living(store *sandbox.Store) (names, branches map[string]bool) {
	names, branches = map[string]bool{}, map[string]bool{}
	all, _ := store.List()
	for _, sb := range all {
		names[sb.Name] = true
		for _, b := range bridgesOf(sb.Dir()) {
			branches[b.Branch] = true
		}
	}
	return names, branches
}

func deleteMerged(c *cobra.Command, r *git.Repository, merged []string, yes bool) error {
	list := strings.Join(merged, ", ")
	if !yes {
		later := ui.Error(fmt.Sprintf("merged, and of sandboxes that are gone: %s", list), "delete these branches with 'coffer gc --branches'")
		if agree(c, fmt.Sprintf("Delete branches of sandboxes that are gone and merged: %s?", terminal.Escape(list)), later) != nil {
			fmt.Fprintf(os.Stderr, "coffer: %s; %s\n", terminal.Escape(later.Error()), ui.HintOf(later))
			return nil
		}
	}
	err := r.DeleteBranches(c.Context(), merged)
	if err == nil {
		fmt.Fprintf(stdout, "deleted %s\n", terminal.Escape(list))
	}
	return err
}

// sayAside says how to take, or to delete, stashes and tags of sandboxes that are gone.
func sayAside(kept []git.Kept, where string) {
	for i, k := range kept {
		if i == 10 {
			fmt.Fprintf(os.Stderr, "coffer: %d more stashes and tags stay; list them with 'git for-each-ref refs/coffer/stash refs/coffer/tag'%s\n", len(kept)-i, terminal.Escape(where))
			return
		}
		fmt.Fprintf(os.Stderr, "coffer: a %s made inside stays; take it with %s, or delete it with %s%s\n", k.Kind, terminal.Escape(k.Take), terminal.Escape(k.Drop), terminal.Escape(where))
	}
}

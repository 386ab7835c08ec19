package main

import (
	"context"
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

// offerLeft deletes branches of sandboxes that are gone and whose commits are all on a branch of the
// user's, in the repository here, if the user says so. It names stashes and tags that are left.
func offerLeft(c *cobra.Command, store *sandbox.Store, yes bool) error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	r, err := repositoryAt(c.Context(), store, here)
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
	return sayKept(c.Context(), r, names)
}

// living are the names of the sandboxes there are, and their branches.
func living(store *sandbox.Store) (names, branches map[string]bool) {
	names, branches = map[string]bool{}, map[string]bool{}
	all, _ := store.List()
	for _, sb := range all {
		names[sb.Name] = true
		list := git.Included(sb.Dir())
		if b, err := git.Open(sb.Dir()); err == nil {
			list = append(list, b)
		}
		for _, b := range list {
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

func sayKept(ctx context.Context, r *git.Repository, living map[string]bool) error {
	kept, err := r.KeptIn(ctx)
	sayAside(slices.DeleteFunc(kept, func(k git.Kept) bool { return living[k.Sandbox] }), "")
	return err
}

// sayAside says how to take, or to delete, stashes and tags of sandboxes that are gone.
func sayAside(kept []git.Kept, where string) {
	for i, k := range kept {
		if i == 10 {
			fmt.Fprintf(os.Stderr, "coffer: %d more stashes and tags stay; list them with 'git for-each-ref refs/coffer/stash refs/coffer/tag'%s\n", len(kept)-i, terminal.Escape(where))
			return
		}
		fmt.Fprintf(os.Stderr, "coffer: a %s made inside stays; take it with '%s', or delete it with '%s'%s\n", k.Kind, terminal.Escape(k.Take), terminal.Escape(k.Drop), terminal.Escape(where))
	}
}

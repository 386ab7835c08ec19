package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cofferhq/coffer/internal/checkpoint"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

type includeFlags struct {
	repo, as, branch, base string
	this                   bool
}

func includeCommand() *cobra.Command {
	var f includeFlags
	var match string
	c := &cobra.Command{
		Use:   "include [--repo PATH | --this]",
		Short: "Give a sandbox a worktree of another repository as well",
		Long: `Give a sandbox a worktree of another repository as well: of the one at PATH, or of the
one that you are in with --this. Inside it is at .coffer/include/NAME of the workspace,
with a branch of its own, coffer/SANDBOX, in that repository. Commits come over as
they do from the sandbox's own repository.

It is there from the next start on. A sandbox that only waits for its next command is
stopped for it.`,
		Example: `  coffer include --repo ../library -m parser
  coffer include --this -m parser
  coffer diff parser --repo library`,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case (f.repo == "") == !f.this:
				return ui.Hint(usagef("want one of --repo PATH and --this"), "see 'coffer include --help'")
			case f.this && match == "":
				return ui.Hint(usagef("--this is the repository here, for a sandbox elsewhere"), "say which one with -m")
			}
			store, err := openStore()
			if err != nil {
				return err
			}
			sb, err := forExec.choose(store, match)
			if err != nil {
				return err
			}
			ctx, stop := interruptible(c)
			defer stop()
			return orGivenUp(ctx, include(ctx, store, sb, f))
		},
	}
	c.Flags().StringVar(&f.repo, "repo", "", "include the repository at `PATH`")
	c.Flags().BoolVar(&f.this, "this", false, "include the repository of the current directory")
	c.Flags().StringVar(&f.as, "as", "", "the `NAME` to include it by (default: that of its directory)")
	c.Flags().StringVar(&f.branch, "branch", "", "the `BRANCH` to make for it (default: coffer/SANDBOX)")
	c.Flags().StringVar(&f.base, "base", "", "the `COMMIT` that it starts from (default: HEAD)")
	matchFlag(c, &match)
	return c
}

func include(ctx context.Context, store *sandbox.Store, sb *sandbox.Sandbox, f includeFlags) error {
	if sb.Ephemeral || sb.Once || sb.Workspace.Mode == sandbox.WorkspaceNone {
		return ui.Error(fmt.Sprintf("sandbox %s cannot include a repository: it has no workspace, or was made for one run", sb.Name), "make one that stays with 'coffer exec --create'")
	}
	r, err := repositoryAt(ctx, store, f.repo)
	if err != nil {
		return err
	}
	floor, err := wordPlaces().ReadFloor()
	if err == nil {
		err = floor.EnforceRepository(r.Common, sandbox.Me().Home, false)
	}
	if err != nil {
		return err
	}
	base, err := r.Base(ctx, f.base, f.branch)
	if err != nil {
		return err
	}
	if f.as == "" {
		f.as = r.IncludeName()
	}
	unlock, err := git.LockIncluded(ctx, sb.Dir(), purgeFiles)
	if err != nil {
		return err
	}
	defer unlock()
	made := ui.Busy("making the worktree")
	b, err := r.Include(ctx, git.IncludeOptions{
		ID: sb.ID, Name: sb.Name, Folder: sb.Dir(), Workspace: sb.Workspace.Path, Layer: sb.Upper(), As: f.as, Branch: f.branch, Base: base,
	})
	made()
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "included %s on the branch %s\n  inside:  %s\n  outside: %s\n", b.Include, b.Branch, b.At(), b.Tree)
	if err := stopIdle(ctx, sb); err != nil || !sb.Running() {
		return err
	}
	fmt.Fprintf(os.Stderr, "coffer: it takes effect at the next start: coffer stop %s\n", sb.Name)
	return nil
}

// repositoryAt finds the repository at a path, or here, unless a sandbox could have made it.
func repositoryAt(ctx context.Context, store *sandbox.Store, path string) (*git.Repository, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return nil, ui.Hint(err, "name the directory of a repository with --repo")
	}
	for _, dir := range []string{path, repositoryOf(path)} {
		if err := guardPlanted(store, dir); err != nil {
			return nil, err
		}
	}
	r, err := git.Find(ctx, path)
	if errors.Is(err, git.ErrNoRepository) {
		return nil, ui.Error(path+" is not in a git repository", "name the directory of one with --repo")
	}
	return r, err
}

func unincludeCommand() *cobra.Command {
	var match string
	var force, branch bool
	c := &cobra.Command{
		Use:   "uninclude REPOSITORY",
		Short: "Take an included repository out of a sandbox",
		Long: `Take a repository out of a sandbox that was included in it. Its worktree goes, and its
branch stays if there are commits on it. Its checkpoints go with it: 'coffer undo'
does not bring it back. One with changes that are not committed, or commits that are
merged nowhere, is taken out with --force only. No program may run in the sandbox; one
that only waits for its next command is stopped.`,
		Example: "  coffer uninclude library -m parser",
		RunE: func(c *cobra.Command, args []string) error {
			sb, err := forExec.chosen(match)
			if err != nil {
				return err
			}
			return uninclude(c.Context(), sb, args[0], force, branch)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "take it out although something would be lost")
	c.Flags().BoolVar(&branch, "delete-branch", false, "delete its branches too")
	matchFlag(c, &match)
	return c
}

// uninclude takes a repository out of a sandbox that does not run.
func uninclude(ctx context.Context, sb *sandbox.Sandbox, name string, force, branch bool) error {
	unlock, err := git.LockIncluded(ctx, sb.Dir(), purgeFiles)
	if err != nil {
		return err
	}
	defer unlock()
	b, err := git.OpenIncluded(sb.Dir(), name)
	if err != nil {
		return err
	}
	lock, err := lockIdle(ctx, sb)
	if err != nil {
		return err
	}
	defer lock.Release()
	if !force {
		if err := b.MayRemove(ctx, branch); err != nil {
			return err
		}
	}
	if err := b.Uninclude(ctx, branch, purgeFiles); err != nil {
		return err
	}
	sayStayed(b)
	if all, _, err := checkpoint.Read(sb.Dir()); err == nil && len(all) > 1 {
		fmt.Fprintf(os.Stderr, "coffer: what %s was at earlier checkpoints is gone with it: 'coffer undo' does not bring it back\n", b.Include)
	}
	if layer := sb.Upper(); layer != "" {
		b.RemovePlace(layer)
	} else {
		removePlace(b)
	}
	return nil
}

// holdIncluded keeps others from including something in a sandbox that is being removed.
func holdIncluded(sb *sandbox.Sandbox) (release func()) {
	release, err := git.HoldIncluded(context.Background(), sb.Dir())
	if err != nil {
		return func() {}
	}
	return release
}

func abandon(sb *sandbox.Sandbox, lock *sandbox.Lock) error {
	defer holdIncluded(sb)()
	return lock.Remove(purge)
}

func bridgeOf(sb *sandbox.Sandbox, repo string) (*git.Bridge, error) {
	if repo == "" {
		return git.Open(sb.Dir())
	}
	return git.OpenIncluded(sb.Dir(), repo)
}

// bridgesOf are the bridges of a sandbox's own repository, if it can be read, and of those that it includes.
func bridgesOf(folder string) (all []*git.Bridge) {
	if b, err := git.Open(folder); err == nil {
		all = append(all, b)
	}
	return append(all, git.Included(folder)...)
}

func repoFlag(c *cobra.Command, repo *string) {
	c.Flags().StringVar(repo, "repo", "", "the included repository of this `NAME`, instead of the sandbox's own")
}

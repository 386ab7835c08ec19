package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cofferhq/coffer/internal/changes"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/hidden"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"github.com/spf13/cobra"
)

func forkCommand() *cobra.Command {
	var at int
	var name, branch string
	c := &cobra.Command{
		Use:   "fork MATCH",
		Short: "Make a second sandbox from a moment of the first",
		Long: `Make a second sandbox with a worktree and a branch of its own, whose files and commit
are those of the first at a checkpoint, or now; of each repository that the first one
includes, too. Settings, limits and rules are those of the first; its home, installed
packages and forwarded ports are not taken along. The first one is left as it is. Of a
sandbox over your own directory, too, the second one gets a worktree.`,
		Example: "  coffer fork parser --name second-try\n  coffer fork parser --at 3",
		RunE: func(c *cobra.Command, args []string) error {
			if at < 0 {
				return usagef("%d is not the number of a checkpoint", at)
			}
			store, sb, err := chooseKept(forName.choose, args[0])
			if err != nil {
				return err
			}
			ctx, stop := interruptible(c)
			defer stop()
			return orGivenUp(ctx, fork(ctx, store, sb, at, name, branch))
		},
	}
	c.Flags().IntVar(&at, "at", 0, "the `NUMBER` of the checkpoint (default: as it is now)")
	c.Flags().StringVar(&name, "name", "", "the new sandbox's `NAME`")
	c.Flags().StringVar(&branch, "branch", "", "the `BRANCH` to make for it (default: coffer/NAME)")
	return c
}

func fork(ctx context.Context, store *sandbox.Store, sb *sandbox.Sandbox, at int, name, branch string) error {
	lock, err := settleForFork(ctx, sb)
	if err != nil {
		return err
	}
	defer lock.Release()
	b, err := git.Open(sb.Dir())
	if err != nil {
		return err
	}
	included := git.Included(sb.Dir())
	access, err := hidden.From(ctx, sb, included)
	if err != nil {
		return err
	}
	points, err := b.Moments(ctx, access, included)
	if err != nil {
		return err
	}
	if lock != nil {
		if _, err := points.Take(ctx, git.Meanwhile); err != nil {
			return err
		}
	}
	from, err := points.Fork(ctx, at)
	if err != nil {
		return ui.Hint(err, "see 'coffer checkpoints %s'", sb.Name)
	}
	// What is hidden in the first one need not be so in a copy, where it has no other name.
	hidden := git.Access{Hidden: access.Hidden, HiddenIn: func(tree, path string) bool {
		i := slices.IndexFunc(included, func(b *git.Bridge) bool { return filepath.Base(b.Tree) == filepath.Base(tree) })
		return i >= 0 && access.HiddenIn(included[i].Tree, path)
	}}
	made, err := forked(ctx, store, sb, from, hidden, name, branch)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, made.Name)
	return nil
}

// settleForFork has a running sandbox take a checkpoint, or returns the lock of a worktree's that is stopped.
func settleForFork(ctx context.Context, sb *sandbox.Sandbox) (*sandbox.Lock, error) {
	line, err := wire.Connect(sb)
	if err != nil && sb.Workspace.Mode != sandbox.WorkspaceTree {
		if line, err = supervisor.Reach(ctx, sb, nil); err != nil {
			return nil, err
		}
	}
	if err == nil {
		defer line.Close()
		bringRunning(sb)
		_, err = supervisor.Checkpoint(line, git.Meanwhile)
		return nil, err
	}
	return lockStopped(sb)
}

// forked makes the new sandbox. It is noted what it is to be before it is anything.
func forked(ctx context.Context, store *sandbox.Store, sb *sandbox.Sandbox, from []*git.Forked, hidden git.Access, name, branch string) (*sandbox.Sandbox, error) {
	rec := sb.Record
	rec.ID, rec.Name, rec.Created = "", name, time.Time{}
	rec.Workspace = sandbox.Workspace{Mode: sandbox.WorkspaceTree}
	if rec.Once { // what a single run left
		rec.Once, rec.Limits.Idle = false, idleDefault
	}
	rec.Forwards, rec.Sockets = nil, nil
	made, lock, err := store.Create(rec)
	if errors.Is(err, sandbox.ErrExists) {
		return nil, ui.Hint(err, "choose another name with --name")
	}
	if err != nil {
		return nil, err
	}
	bridge, err := forkedGit(ctx, made, from, branch)
	if err != nil {
		_ = abandon(made, lock)
		return nil, err
	}
	failed, err := bridge.Finish(ctx, hidden, git.Included(made.Dir()))
	for path, why := range failed {
		fmt.Fprintf(os.Stderr, "coffer: not restored: %s: %s\n", terminal.Escape(changes.Quote(path)), terminal.Escape(why.Error()))
	}
	err = errors.Join(err, trustAnew(made, sb.Workspace.Path))
	lock.Release()
	return made, err
}

// forkedGit makes the worktrees of the new sandbox, its own last.
func forkedGit(ctx context.Context, made *sandbox.Sandbox, from []*git.Forked, branch string) (*git.Bridge, error) {
	options := git.Options{ID: made.ID, Name: made.Name, Folder: made.Dir(), Tree: made.Workspace.Path, Branch: branch}
	if len(from) > 1 {
		unlock, err := git.LockIncluded(ctx, made.Dir(), purgeFiles)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	for _, f := range from[1:] {
		if _, err := f.MakeIncluded(ctx, options); err != nil {
			return nil, err
		}
	}
	return from[0].Make(ctx, options)
}

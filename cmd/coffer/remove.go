package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

func removeCommand() *cobra.Command {
	var force, yes, branch bool
	var which several
	c := &cobra.Command{
		Use:     "remove [NAME…]",
		Aliases: []string{"rm", "delete"},
		Short:   "Remove sandboxes and everything in them",
		Long: `Remove sandboxes: their home, what was installed in them, their logs. The workspace
is yours and stays, unless it is a worktree: that goes, and its branch goes too, unless
it has commits that no other branch has. A sandbox in which a program runs, that has
changes waiting to be applied, or whose worktree has changes that are not committed, or
commits that are merged nowhere, is removed with --force only. A squash, a rebase or
cherry-picks count as a merge. One that only waits for its next command is stopped.
With --all or --everywhere, it asks first.`,
		Example: "  coffer remove parser\n  coffer rm --all",
		RunE: func(c *cobra.Command, args []string) error {
			store, err := openStore()
			if err != nil {
				return err
			}
			if len(args)+len(which.match) == 0 {
				tidyTrees(c.Context(), store)
			}
			list, err := which.find(c, store, args)
			if (which.all || which.everywhere) && len(list) > 0 && !force && !yes {
				names := make([]string, len(list))
				for i, sb := range list {
					names[i] = sb.Name
				}
				what := strings.Join(names, ", ")
				refusal := ui.Error("not removed without your yes: "+what, "name them, or say --yes")
				if err := agree(c, fmt.Sprintf("Remove %d of your sandboxes: %s?", len(list), what), refusal); err != nil {
					return err
				}
			}
			err = each(list, err, func(sb *sandbox.Sandbox) error {
				gone, err := remove(c.Context(), sb, force, branch)
				if err == nil {
					line := "removed sandbox " + sb.Name
					if len(gone) > 0 { // their names come from inside
						line += fmt.Sprintf(" and its branch%s ", map[bool]string{true: "es"}[len(gone) > 1]) + strings.Join(gone, ", ")
					}
					fmt.Fprintln(stdout, terminal.Escape(line))
				}
				return err
			})
			limits.Sweep(func(id string) bool {
				sb, err := store.Get(id)
				return err == nil && sb.Running()
			})
			return err
		},
	}
	which.addTo(c)
	c.Flags().BoolVar(&force, "force", false, "remove it although programs run in it, or something would be lost")
	c.Flags().BoolVar(&branch, "delete-branch", false, "delete its branches too")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask about --all or --everywhere")
	return c
}

// settled describes a sandbox, again for a moment while programs still count whose command is back.
func settled(sb *sandbox.Sandbox) (d described) {
	const tries, pause = 10, 20 * time.Millisecond
	for range tries {
		if d = describe(sb, false); d.Execs == 0 {
			break
		}
		time.Sleep(pause)
	}
	return d
}

// idle says that a sandbox only waits for its next command: nobody would miss it.
func idle(sb *sandbox.Sandbox) bool {
	d := settled(sb)
	return d.PID > 0 && d.Execs == 0
}

func stopIdle(ctx context.Context, sb *sandbox.Sandbox) error {
	if !sb.Running() || !idle(sb) {
		return nil
	}
	return stop(ctx, sb, false)
}

// remove deletes a sandbox, refusing what would lose something. It returns the branches that went.
func remove(ctx context.Context, sb *sandbox.Sandbox, force, branch bool) (gone []string, err error) {
	if force {
		if err := stop(ctx, sb, true); err != nil {
			return nil, err
		}
	} else if err := mayRemove(ctx, sb, branch); err != nil {
		return nil, err
	}
	return removeStopped(ctx, sb, branch)
}

// mayRemove stops an idle sandbox if nothing would be lost with it, and looks again afterwards.
func mayRemove(ctx context.Context, sb *sandbox.Sandbox, branch bool) error {
	if sb.Running() && idle(sb) {
		bringRunning(sb)
		if err := loses(ctx, sb, branch); err != nil {
			return err
		}
		if err := stopIdle(ctx, sb); err != nil {
			return err
		}
	}
	if sb.Running() {
		return nil // which is reason enough to refuse
	}
	return loses(ctx, sb, branch)
}

// loses says what would be lost with a sandbox.
func loses(ctx context.Context, sb *sandbox.Sandbox, branch bool) error {
	if sb.Workspace.Mode == sandbox.WorkspaceCOW {
		n, err := waiting(sb)
		if err != nil {
			return ui.Hint(err, "remove it all the same with --force")
		}
		if n > 0 {
			return ui.Error(fmt.Sprintf("sandbox %s has %s not applied", sb.Name, count(n, "change")),
				fmt.Sprintf("see 'coffer diff %s', or remove it all the same with --force", sb.Name))
		}
	}
	if ownRepository(sb) {
		return ui.Error(fmt.Sprintf("sandbox %s has a repository that was made inside, and commits that are nowhere else", sb.Name),
			fmt.Sprintf("take them with 'coffer exec -m %s -- git bundle create commits.bundle --all', or remove it all the same with --force", sb.Name))
	}
	if _, err := git.Open(sb.Dir()); err != nil && sb.Workspace.Mode == sandbox.WorkspaceTree && !errors.Is(err, fs.ErrNotExist) { // else it was never completed
		return ui.Hint(err, "remove it all the same with --force")
	}
	for _, b := range bridgesOf(sb.Dir()) {
		if err := b.MayRemove(ctx, branch); err != nil {
			return err
		}
	}
	return nil
}

// removeStopped removes a sandbox that does not run, while no repository is being included in it.
func removeStopped(ctx context.Context, sb *sandbox.Sandbox, branch bool) (gone []string, err error) {
	release, err := git.HoldIncluded(ctx, sb.Dir())
	if errors.Is(err, git.ErrRemoved) {
		return nil, fmt.Errorf("%w: %s", sandbox.ErrNotFound, sb.Name)
	}
	if err != nil {
		return nil, err
	}
	defer release()
	var forgot error
	err = sb.Remove(func(tree string) error {
		gone, forgot = forgetGit(tree, branch)
		return purgeForgotten(tree)
	})
	if errors.Is(err, sandbox.ErrRunning) {
		return nil, ui.Error(fmt.Sprintf("a program runs in sandbox %s", sb.Name), "stop it with 'coffer stop "+sb.Name+"', or remove it all the same with --force")
	}
	return gone, errors.Join(err, forgot)
}

// ownRepository reports whether programs made a repository in the sandbox alone, and committed to it.
func ownRepository(sb *sandbox.Sandbox) bool {
	if !sb.MadeGit {
		return false
	}
	root, err := os.OpenRoot(filepath.Join(sb.Layers(), "git"))
	if err != nil {
		return false
	}
	defer root.Close()
	if _, err := root.Lstat("packed-refs"); err == nil {
		return true
	}
	heads, err := root.OpenFile("refs/heads", os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer heads.Close()
	names, _ := heads.Readdirnames(1)
	return len(names) > 0
}

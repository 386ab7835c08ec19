package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/patient"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"github.com/spf13/cobra"
)

// includeFlags say what is to be included, and how.
type includeFlags struct {
	repo, as, branch, base string
	this                   bool
}

func includeCommand() *cobra.Command {
	var f includeFlags
	var match string
	c := &cobra.Command{
		Use:   "include --repo PATH | --this",
		Short: "Give a sandbox a worktree of another repository as well",
		Long: `Give a sandbox a worktree of another repository as well: of the one at PATH, or of the
one that you are in with --this. Inside it is at .coffer/include/NAME of the workspace,
with a branch of its own, coffer/SANDBOX, in that repository. Commits come over as
they do from the sandbox's own repository.

It is there at once, for programs that run already as well.`,
		Example: `  coffer include --repo ../library -m parser
  coffer include --this -m parser
  coffer diff parser --repo library`,
		Args: noArgs,
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

// include makes the worktree of another repository for a sandbox.
func include(ctx context.Context, store *sandbox.Store, sb *sandbox.Sandbox, f includeFlags) error {
	if sb.Ephemeral || sb.Workspace.Mode == sandbox.WorkspaceNone {
		return ui.Error(fmt.Sprintf("sandbox %s cannot include a repository: it has no workspace to show it in", sb.Name), "use another --workspace when you make a sandbox")
	}
	r, err := repositoryAt(ctx, store, f.repo)
	if err != nil {
		return err
	}
	floor, err := wordPlaces().ReadFloor()
	if err == nil {
		err = floor.EnforceRepository(r.Common, supervisor.Me().Home, false)
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
		ID: sb.ID, Name: sb.Name, Folder: sb.Dir(), Workspace: sb.Workspace.Path, Layer: supervisor.WorkspaceLayer(sb), As: f.as, Branch: f.branch, Base: base,
	})
	made()
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "included %s on the branch %s\n  inside:  %s\n  outside: %s\n", b.Include, b.Branch, b.At(), b.Tree)
	return showIncluded(ctx, sb, b.Include)
}

// showIncluded shows it to a sandbox that runs. One to which it cannot be shown sees it after
// the next start, for which it is stopped if it only waits for its next command.
func showIncluded(ctx context.Context, sb *sandbox.Sandbox, name string) error {
	line, err := supervisor.Connect(sb)
	if err != nil {
		return nil // it does not run, or is just ending
	}
	err = supervisor.ShowIncluded(line, name)
	line.Close()
	if err == nil {
		return nil
	}
	if stopped := stopIdle(ctx, sb); stopped != nil || !sb.Running() {
		return stopped
	}
	fmt.Fprintf(os.Stderr, "coffer: programs that run in sandbox %s see it after 'coffer stop %s' and the next start: %s\n", sb.Name, sb.Name, terminal.Escape(err.Error()))
	return nil
}

// repositoryAt finds the repository at a path, or here, unless a sandbox could have made it.
func repositoryAt(ctx context.Context, store *sandbox.Store, path string) (*git.Repository, error) {
	named := cmp.Or(path, ".")
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ui.Error("there is no "+named, "name the directory of a repository with --repo")
	}
	if err != nil {
		return nil, ui.Hint(err, "name the directory of a repository")
	}
	if err := guardPlanted(store, path); err != nil {
		return nil, err
	}
	if err := guardPlanted(store, repositoryOf(path)); err != nil {
		return nil, err
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
		Use:   "uninclude NAME",
		Short: "Take an included repository out of a sandbox",
		Long: `Take a repository out of a sandbox that was included in it. Its worktree goes, and its
branch stays if there are commits on it. Programs that run do not see it any more.
Its checkpoints go with it: 'coffer undo' does not bring it back. One with changes
that are not committed, or commits that are merged nowhere, is taken out with --force
only.`,
		Example: "  coffer uninclude library -m parser",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return ui.Hint(usagef("want the name of one repository"), "see 'coffer show' and 'coffer uninclude --help'")
			}
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

// errBetween is about a sandbox that is just starting or ending. One that ends waits for who
// takes something out of it, so that one must not wait for it.
var errBetween = errors.New("the sandbox is starting or ending")

// uninclude takes a repository out of a sandbox.
func uninclude(ctx context.Context, sb *sandbox.Sandbox, name string, force, branch bool) error {
	err := takeOut(ctx, sb, name, force, branch, true)
	if errors.Is(err, errBetween) {
		awaitSettled(ctx, sb)
		err = takeOut(ctx, sb, name, force, branch, false)
	}
	return err
}

// awaitSettled waits until a sandbox is started, or has ended, but not for ever.
func awaitSettled(ctx context.Context, sb *sandbox.Sandbox) {
	ctx, cancel := patient.WithTimeout(ctx, stopGrace)
	defer cancel()
	for sb.Running() {
		if line, err := supervisor.Connect(sb); err == nil {
			line.Close()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// takeOut is uninclude, in one try. gently returns errBetween where there is to be another one.
func takeOut(ctx context.Context, sb *sandbox.Sandbox, name string, force, branch, gently bool) error {
	unlock, err := git.LockIncluded(ctx, sb.Dir(), purgeFiles)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := git.OpenIncluded(sb.Dir(), name); err != nil {
		return err
	}
	release, err := letGo(ctx, sb, name, force, branch, gently)
	if err != nil {
		return err
	}
	defer release()
	b, err := mayUninclude(ctx, sb, name, force, branch) // with what came over last
	var hidden []string
	if err == nil {
		hidden, err = hiddenIncluded(ctx, sb, b)
	}
	if err != nil {
		_ = showIncluded(ctx, sb, name) // and says so if it cannot
		return err
	}
	moments, err := b.Uninclude(ctx, branch, hidden, purgeFiles)
	if err != nil {
		return err
	}
	if line, err := supervisor.Connect(sb); err == nil {
		_ = supervisor.HideIncluded(line, name, true) // it need not be watched any longer
		line.Close()
	}
	sayStayed(b)
	if moments {
		fmt.Fprintf(os.Stderr, "coffer: what %s was at earlier checkpoints is gone with it: 'coffer undo' does not bring it back\n", b.Include)
	}
	removePlace(b)
	return nil
}

// mayUninclude opens one, and says what would be lost with it.
func mayUninclude(ctx context.Context, sb *sandbox.Sandbox, name string, force, branch bool) (*git.Bridge, error) {
	b, err := git.OpenIncluded(sb.Dir(), name)
	if err == nil && !force {
		err = b.MayRemove(ctx, branch)
	}
	return b, err
}

// holdIncluded is for who removes a sandbox that was not completed, in any case: others may have
// found it already, and include something.
func holdIncluded(sb *sandbox.Sandbox) (release func()) {
	release, err := git.HoldIncluded(context.Background(), sb.Dir())
	if err != nil {
		return func() {}
	}
	return release
}

// abandon removes a new sandbox that turned out not to be possible.
func abandon(sb *sandbox.Sandbox, lock *sandbox.Lock) error {
	defer holdIncluded(sb)()
	return lock.Remove(purge)
}

// mayEnd says what would be lost of the repositories that were included in a sandbox that was made
// for one run, which ends without being asked. Until release is called none comes, or goes.
func mayEnd(ctx context.Context, sb *sandbox.Sandbox) (release func(), err error) {
	release, err = git.HoldIncluded(ctx, sb.Dir())
	if err != nil {
		return nil, err
	}
	for _, b := range git.Included(sb.Dir()) {
		if err := b.MayRemove(ctx, false); err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

// hiddenIncluded lists what is hidden in a repository, if programs run that may stand in it.
func hiddenIncluded(ctx context.Context, sb *sandbox.Sandbox, b *git.Bridge) ([]string, error) {
	if _, err := os.Lstat(b.Tree); err != nil || !sb.Running() {
		return nil, nil
	}
	hidden, err := supervisor.HiddenIncluded(ctx, sb, b)
	if err != nil {
		err = ui.Hint(err, "stop the sandbox first, with 'coffer stop %s'", sb.Name)
	}
	return hidden, err
}

// letGo takes a repository from the sight of a sandbox that runs, if nothing would be lost. One
// that cannot let go of it is stopped. What does not run stays so until release is called.
func letGo(ctx context.Context, sb *sandbox.Sandbox, name string, force, branch, gently bool) (release func(), err error) {
	if line, err := supervisor.Connect(sb); err == nil {
		defer line.Close()
		bringRunning(sb)
		if _, err := mayUninclude(ctx, sb, name, force, branch); err != nil {
			return nil, err
		}
		err := supervisor.HideIncluded(line, name, force)
		if err == nil {
			return func() {}, nil
		}
		fmt.Fprintf(os.Stderr, "coffer: sandbox %s has to end for it: %s\n", sb.Name, terminal.Escape(err.Error()))
	} else if gently && sb.Running() && !wire.Suspended(sb) {
		return nil, errBetween
	}
	end := stopIdle(ctx, sb)
	if force {
		end = stop(ctx, sb, true)
	}
	if end != nil {
		return nil, end
	}
	lock, err := lockStopped(sb)
	if err != nil {
		return nil, err
	}
	return func() { lock.Release() }, nil
}

// bridgeOf opens the bridge of a sandbox's own repository, or of one that it includes.
func bridgeOf(sb *sandbox.Sandbox, repo string) (*git.Bridge, error) {
	if repo == "" {
		return git.Open(sb.Dir())
	}
	return git.OpenIncluded(sb.Dir(), repo)
}

// repoFlag lets a command be about a repository that is included.
func repoFlag(c *cobra.Command, repo *string) {
	c.Flags().StringVar(repo, "repo", "", "the included repository of this `NAME`, instead of the sandbox's own")
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/cofferhq/coffer/internal/changes"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

// takeFlags are about hooks that the sandbox has changed.
type takeFlags struct {
	hooks, noHooks bool
	repo           string // one that is included
}

func (t *takeFlags) addTo(c *cobra.Command) {
	repoFlag(c, &t.repo)
	c.Flags().BoolVar(&t.noHooks, "no-hooks", false, "run none of the repository's hooks")
	c.Flags().BoolVar(&t.hooks, "changed-hooks", false, "run the hooks though the sandbox has changed them")
}

func mergeCommand() *cobra.Command {
	var squash bool
	var flags takeFlags
	c := &cobra.Command{
		Use:   "merge NAME",
		Short: "Merge a sandbox's commits into your current branch",
		Long: `Merge the branch of a sandbox into the branch that is checked out here, with git, your
settings and your hooks. What is not committed in the sandbox stays there. Git refuses
what would lose changes of yours, and leaves conflicts for you to resolve. If the
sandbox changed files that your hooks could run, nothing is merged until you say how.

What was committed over your own directory lies in your files already: then your branch
and index move to the commit, and no file is changed. A sandbox that is gone is named by
its branch coffer/NAME.`,
		Example: "  coffer merge parser\n  coffer merge parser --squash && git commit",
		RunE: func(c *cobra.Command, args []string) error {
			if squash {
				return take(c, args[0], git.Squash, flags)
			}
			return take(c, args[0], git.Merge, flags)
		},
	}
	c.Flags().BoolVar(&squash, "squash", false, "stage it all as one change, for you to commit")
	flags.addTo(c)
	return c
}

func rebaseCommand() *cobra.Command {
	var flags takeFlags
	c := &cobra.Command{
		Use:   "rebase NAME",
		Short: "Put a sandbox's commits on top of your current branch",
		Long: `Put the commits of a sandbox, one by one, on top of the branch that is checked out
here, so that its history stays a line. Your own commits stay as they are; those of
the sandbox get new names, unless nothing of yours came between. Merges made inside are
left out, their parts are not. For the rest it is as 'coffer merge'.`,
		Example: "  coffer rebase parser",
		RunE: func(c *cobra.Command, args []string) error {
			return take(c, args[0], git.Replay, flags)
		},
	}
	flags.addTo(c)
	return c
}

func take(c *cobra.Command, match string, way git.Way, flags takeFlags) error {
	store, err := openStore()
	if err != nil {
		return err
	}
	if sb, err := store.Find(match); flags.repo == "" && match != "" && (err != nil || match != sb.Name && match != sb.ID) {
		if found, err := takeLeft(c, match, way, flags); found || err != nil {
			return err
		}
	}
	sb, err := forName.exactly(c, store, match)
	if err != nil {
		return err
	}
	at, err := spotHere()
	if err != nil {
		return err
	}
	for _, b := range git.Included(sb.Dir()) {
		if b.Common == at.common && flags.repo == "" {
			return ui.Error(fmt.Sprintf("sandbox %s includes the repository here, and works on another", sb.Name),
				fmt.Sprintf("for this one, use 'coffer %s %s'", c.Name(), b.Words()))
		}
	}
	bringRunning(sb)
	b, err := bridgeOf(sb, flags.repo)
	if err == nil && b.Laid {
		if _, gone := b.Tip(c.Context()); gone != nil {
			err = os.ErrNotExist
		}
	}
	if errors.Is(err, os.ErrNotExist) && flags.repo == "" {
		return ui.Error(fmt.Sprintf("sandbox %s has no repository, or has not committed anything", sb.Name), "for what it changed, see 'coffer diff "+sb.Name+"'")
	}
	if err != nil {
		return err
	}
	r, err := git.Find(c.Context(), at.dir)
	if errors.Is(err, git.ErrNoRepository) {
		return ui.Error(at.dir+" is not in a git repository", "change to your checkout of the repository")
	}
	if err != nil {
		return err
	}
	err = takeInto(c, b, r, way, flags)
	if err == nil && flags.repo == "" {
		sayIncluded(c.Context(), sb, c.Name())
	}
	return err
}

// takeLeft is take for the branch of a sandbox that is gone. found says whether there is one.
func takeLeft(c *cobra.Command, name string, way git.Way, flags takeFlags) (found bool, err error) {
	here, err := os.Getwd()
	if err != nil {
		return false, err
	}
	r, err := git.Find(c.Context(), here)
	if err != nil {
		return false, nil // the sandbox's name is wrong first of all
	}
	b := r.Left(c.Context(), strings.TrimPrefix(name, "coffer/"))
	if b == nil {
		return false, nil
	}
	return true, takeInto(c, b, r, way, flags)
}

// takeInto brings a branch to the checkout that a repository was found from.
func takeInto(c *cobra.Command, b *git.Bridge, r *git.Repository, way git.Way, flags takeFlags) error {
	if b.Laid && way != git.Squash && r.Common == b.Common {
		l, err := r.Landing(c.Context(), b.Branch)
		if err != nil {
			return err
		}
		if l != nil {
			return land(c.Context(), stdout, r, l)
		}
	}
	t, err := b.Take(c.Context(), r, way)
	if err != nil {
		return err
	}
	return finishTake(c, b, r, t, way, flags)
}

// land moves the user's branch to what was committed over the files here.
func land(ctx context.Context, to io.Writer, r *git.Repository, l *git.Landing) error {
	if err := r.Land(ctx, l); err != nil {
		return err
	}
	fmt.Fprintf(to, "%s is at %s now (%s); no file was changed\n", terminal.Escape(l.To), terminal.Escape(l.Branch), count(l.Commits, "commit"))
	return nil
}

// finishTake has git do it, and says what came of it.
func finishTake(c *cobra.Command, b *git.Bridge, r *git.Repository, t *git.Taking, way git.Way, flags takeFlags) error {
	if t.Loose > 0 {
		take := ""
		if t.Count == 0 || way == git.Merge { // else a diff would repeat the commits
			take = fmt.Sprintf(", and take that, after the merge, with 'coffer diff %s | git apply' at the top of your checkout", b.Words())
		}
		fmt.Fprintf(os.Stderr, "coffer: %s not committed in sandbox %s, and not merged; see 'coffer diff %s'%s\n", are(t.Loose, "file"), b.Name, b.Words(), take)
	}
	if t.Count == 0 {
		fmt.Fprintf(stdout, "nothing to do: everything on %s is here already\n", t.Branch)
		return nil
	}
	if len(t.Hooks) > 0 && !flags.hooks && !flags.noHooks {
		var names []string
		for _, h := range t.Hooks[:min(len(t.Hooks), 5)] {
			names = append(names, changes.Quote(h))
		}
		return ui.Error(fmt.Sprintf("nothing merged: the sandbox changed files that git hooks on this machine could run: %s", strings.Join(names, ", ")),
			fmt.Sprintf("read it with %s; then merge without your hooks (--no-hooks), or let them run as changed (--changed-hooks)", ui.Command("coffer diff "+b.Words(), t.Hooks[0])))
	}
	code, err := t.Run(!flags.noHooks)
	if err != nil {
		return err
	}
	if code != 0 {
		if advice, left := t.Left(c.Context(), r); left {
			fmt.Fprintf(os.Stderr, "coffer: git stopped; %s\n", advice)
		} else {
			fmt.Fprintln(os.Stderr, "coffer: git refused, and nothing was changed; if files of yours are in the way, put them aside with 'git stash -u' and try again")
		}
		return status(code)
	}
	switch way {
	case git.Squash:
		fmt.Fprintf(stdout, "%s staged from %s; commit with 'git commit'\n", are(t.Count, "commit"), t.Branch)
	case git.Replay:
		fmt.Fprintf(stdout, "%s on top of your branch now, from %s\n", are(t.Count, "commit"), t.Branch)
	}
	return nil
}

func are(n int, what string) string {
	if n == 1 {
		return count(n, what) + " is"
	}
	return count(n, what) + " are"
}

// landCommits moves the user's branch to what a run committed over his directory, if he agrees.
func (s *settings) landCommits(l *listener, super *supervisor.Supervisor) {
	branch := super.CameOut()
	if branch == "" || !s.take && !(terminal.IsTerminal(0) && terminal.IsTerminal(2)) {
		return
	}
	r, err := git.Find(l.ctx, super.Sandbox.Workspace.Path)
	var to *git.Landing
	if err == nil {
		to, err = r.Landing(l.ctx, branch)
	}
	if err != nil {
		report(err)
		return
	}
	if to == nil {
		if s.take {
			fmt.Fprintln(os.Stderr, "coffer: your branch was not moved: that is no fast-forward, something else is staged, or there are submodules")
		}
		return
	}
	if !s.take {
		yes, err := ui.Agree(l.ctx, fmt.Sprintf("coffer: Move %s there now (%s; no file changes)?", terminal.Escape(to.To), count(to.Commits, "commit")))
		if err != nil || !yes {
			return
		}
	}
	if err := land(context.Background(), os.Stderr, r, to); err != nil {
		report(err)
	}
}

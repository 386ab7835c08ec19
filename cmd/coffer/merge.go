package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cofferhq/coffer/internal/changes"
	"github.com/cofferhq/coffer/internal/gitbridge"
	"github.com/cofferhq/coffer/internal/hint"
	"github.com/cofferhq/coffer/internal/sandbox"
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
		Use:               "merge MATCH",
		ValidArgsFunction: completeSandbox,
		Short:             "Merge a sandbox's commits into the branch that is checked out here",
		Long: `Merge the branch of a sandbox into the branch that is checked out here, with git, your
settings and your hooks. What is not committed in the sandbox stays there. Git refuses
what would lose changes of yours, and leaves conflicts for you to resolve. If the
sandbox changed files that your hooks could run, nothing is merged until you say how.`,
		Example: "  coffer merge parser\n  coffer merge parser --squash && git commit",
		Args:    exactlyOne,
		RunE: func(c *cobra.Command, args []string) error {
			way := gitbridge.Merge
			if squash {
				way = gitbridge.Squash
			}
			return take(c, args[0], way, flags)
		},
	}
	c.Flags().BoolVar(&squash, "squash", false, "stage it all as one change, for you to commit")
	flags.addTo(c)
	return c
}

func rebaseCommand() *cobra.Command {
	var flags takeFlags
	c := &cobra.Command{
		Use:               "rebase MATCH",
		ValidArgsFunction: completeSandbox,
		Short:             "Put a sandbox's commits on top of the branch that is checked out here",
		Long: `Put the commits of a sandbox, one by one, on top of the branch that is checked out
here, so that its history stays a line. Your own commits stay as they are; those of
the sandbox get new names, unless nothing of yours came between. Merges made inside are
left out, their parts are not. For the rest it is as 'coffer merge'.`,
		Example: "  coffer rebase parser",
		Args:    exactlyOne,
		RunE: func(c *cobra.Command, args []string) error {
			return take(c, args[0], gitbridge.Replay, flags)
		},
	}
	flags.addTo(c)
	return c
}

func exactlyOne(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return hint.Wrap(usagef("want the name of one sandbox"), "see '%s --help'", c.CommandPath())
	}
	return nil
}

// take brings a sandbox's work to the branch that is checked out here.
func take(c *cobra.Command, match string, way gitbridge.Way, flags takeFlags) error {
	store, err := openStore()
	if err != nil {
		return err
	}
	sb, err := forName.choose(store, match)
	if err != nil {
		return err
	}
	at, err := spotHere()
	if err != nil {
		return err
	}
	if b := at.including(sb); b != nil && flags.repo == "" {
		return hint.New(fmt.Sprintf("sandbox %s includes the repository here, and works on another", sb.Name),
			fmt.Sprintf("for this one, use 'coffer %s %s'", c.Name(), b.Words()))
	}
	if sb.Workspace.Mode != sandbox.WorkspaceTree && flags.repo == "" {
		return hint.New(fmt.Sprintf("sandbox %s has no worktree of its own", sb.Name), otherWay(c.Context(), sb))
	}
	bringRunning(sb)
	b, err := bridgeOf(sb, flags.repo)
	if err != nil {
		return err
	}
	r, err := gitbridge.Find(c.Context(), at.dir)
	if errors.Is(err, gitbridge.ErrNoRepository) {
		return hint.New(at.dir+" is not in a git repository", "change to your checkout of the repository")
	}
	if err != nil {
		return err
	}
	t, err := b.Take(c.Context(), r, way)
	if err != nil {
		return err
	}
	err = finishTake(c, b, r, t, way, flags)
	if err == nil && flags.repo == "" {
		sayIncluded(c.Context(), sb, c.Name())
	}
	return err
}

// otherWay says how the work of a sandbox without a worktree is taken.
func otherWay(ctx context.Context, sb *sandbox.Sandbox) string {
	files := "its files are those of " + sb.Workspace.Path + ": there is nothing to take"
	switch sb.Workspace.Mode {
	case sandbox.WorkspaceNone:
		return "it has no workspace either; see 'coffer show " + sb.Name + "'"
	case sandbox.WorkspaceCOW:
		files = "take its files with 'coffer apply " + sb.Name + "'"
	}
	r, err := gitbridge.Find(ctx, sb.Workspace.Path)
	if err != nil {
		return files
	}
	way := "git merge"
	if r.Head(ctx) == "" {
		way = "git reset" // there is nothing to merge with, and the files are here already
	}
	return fmt.Sprintf("if it has committed something, take it with '%s coffer/%s'; %s", way, sb.Name, files)
}

// finishTake has git do it, and says what came of it.
func finishTake(c *cobra.Command, b *gitbridge.Bridge, r *gitbridge.Repository, t *gitbridge.Taking, way gitbridge.Way, flags takeFlags) error {
	if t.Loose > 0 {
		fmt.Fprintf(os.Stderr, "coffer: %s not committed in sandbox %s, and not merged; %s\n", are(t.Loose, "file"), b.Name, looseWay(b, t, way))
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
		return hint.New(fmt.Sprintf("nothing merged: the sandbox changed files that git hooks on this machine could run: %s", strings.Join(names, ", ")),
			fmt.Sprintf("read it with 'coffer diff %s %s'; then use --no-hooks, or --changed-hooks if it may run or no hook of yours calls it", b.Words(), names[0]))
	}
	code, err := t.Run(!flags.noHooks)
	if err != nil {
		return err
	}
	if code != 0 {
		if advice, left := t.Left(c.Context(), r); left {
			fmt.Fprintf(os.Stderr, "coffer: git stopped; %s\n", advice)
		} else {
			fmt.Fprintln(os.Stderr, "coffer: git refused, and nothing was changed")
		}
		return status(code)
	}
	switch way {
	case gitbridge.Squash:
		fmt.Fprintf(stdout, "%s staged from %s; commit with 'git commit'\n", are(t.Count, "commit"), t.Branch)
	case gitbridge.Replay:
		fmt.Fprintf(stdout, "%s on top of your branch now, from %s\n", are(t.Count, "commit"), t.Branch)
	}
	return nil
}

// looseWay says what to do about files that are not committed. After a squash or a rebase the
// commits have other names here, and a diff would bring what they change a second time.
func looseWay(b *gitbridge.Bridge, t *gitbridge.Taking, way gitbridge.Way) string {
	see := "see 'coffer diff " + b.Words() + "'"
	switch {
	case t.Count == 0:
		return see + ", and take that with " + takeLoose(b.Words())
	case way == gitbridge.Merge:
		return see + ", and take that, after the merge, with " + takeLoose(b.Words())
	}
	return see
}

// takeLoose is how files that are not committed come to a checkout that has the commits. Git
// leaves out, without a word, what is not below the directory that it is started in.
func takeLoose(words string) string {
	return "'coffer diff " + words + " | git apply' at the top of your checkout"
}

// are is count with its verb.
func are(n int, what string) string {
	if n == 1 {
		return count(n, what) + " is"
	}
	return count(n, what) + " are"
}

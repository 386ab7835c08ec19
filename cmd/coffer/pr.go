package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/changes"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/origin"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

type prFlags struct {
	title, body, base, repo string
	draft, web, force       bool
}

func prCommand() *cobra.Command {
	var f prFlags
	c := &cobra.Command{
		Use:  "pr [MATCH] [-- ARG…]",
		Args: cobra.ArbitraryArgs, ValidArgsFunction: completeSandbox,
		Short: "Push a sandbox's branch and open a pull request",
		Long: `Push the branch of a sandbox to your remote, as you, and open a pull request with your
own gh, GitHub's command line. What follows -- is for gh. Nothing is sent if there is
nothing new, if files are not committed, or if 'coffer review' finds something of level
high, unless you insist with --force.`,
		Example: "  coffer pr parser\n  coffer pr parser --draft --title 'Faster parser' -- --reviewer ada",
		RunE: func(c *cobra.Command, args []string) error {
			var words []string
			if n := c.ArgsLenAtDash(); n >= 0 {
				args, words = args[:n], args[n:]
			}
			if len(args) > 1 {
				return usagef("unexpected argument %q", args[1])
			}
			store, err := openStore()
			if err != nil {
				return err
			}
			sb, err := forName.exactly(c, store, first(args))
			if err != nil {
				return err
			}
			return f.send(c.Context(), sb, words)
		},
	}
	c.Flags().StringVarP(&f.title, "title", "t", "", "its `TITLE`")
	c.Flags().StringVarP(&f.body, "body", "b", "", "its `TEXT`")
	c.Flags().StringVarP(&f.base, "base", "B", "", "the `BRANCH` that it is to be merged into")
	c.Flags().BoolVarP(&f.draft, "draft", "d", false, "make a draft of it")
	c.Flags().BoolVarP(&f.web, "web", "w", false, "open the page in a browser that makes it")
	c.Flags().BoolVar(&f.force, "force", false, "whatever is not committed, or was found")
	repoFlag(c, &f.repo)
	return c
}

func (f *prFlags) send(ctx context.Context, sb *sandbox.Sandbox, words []string) error {
	bringRunning(sb)
	b, err := bridgeOf(sb, f.repo)
	if errors.Is(err, fs.ErrNotExist) {
		return ui.Error(fmt.Sprintf("sandbox %s has no branch of its own", sb.Name), "make a sandbox with --workspace worktree, in a git repository")
	}
	if err != nil {
		return err
	}
	reach := sb.Writes()
	at, err := origin.OnGitHub(ctx, b, reach)
	if remote := new(origin.RemoteError); errors.As(err, &remote) {
		return ui.Error(fmt.Sprintf("the remote %s is %s, which is not on GitHub, nor on a server of the same kind", terminal.Escape(remote.Remote), terminal.Escape(remote.URL)),
			"push the branch yourself; or, if ssh knows the server by a name of yours, give that name a HostName in ~/.ssh/config")
	}
	if err != nil {
		return err
	}
	to, remote := at.To, at.Remote
	program, err := origin.Look(b.Writable(reach))
	if err != nil {
		return ui.Error("there is no gh to open the pull request with: "+err.Error(),
			fmt.Sprintf("install it, see https://cli.github.com; or push with %s, and open the pull request at https://%s", ui.Command("git push", remote.Name, b.Branch), to))
	}
	offer, err := remote.Offer(ctx)
	if err != nil {
		return err
	}
	if err := f.ready(ctx, sb, b, offer); err != nil {
		return err
	}
	if !offer.There {
		said, err := remote.Push(ctx, offer.Move, reach)
		for _, line := range said {
			fmt.Fprintln(os.Stderr, "remote:", terminal.Escape(line))
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "coffer: %s on %s of %s\n", are(offer.Commits, "commit"), offer.Branch, terminal.Escape(remote.Name))
	}
	head := offer.Branch
	if !at.From.Same(to) {
		head = at.From.Owner + ":" + head
	}
	return runTheirs(program, offer.Dir, append(f.words(to, head, words), words...))
}

// ready checks the files as they are now and the very commits that would be sent: programs may be at work inside.
func (f *prFlags) ready(ctx context.Context, sb *sandbox.Sandbox, b *git.Bridge, offer *git.Offer) error {
	loose, err := b.Dirty(ctx)
	if err != nil {
		return err
	}
	seen, err := reviewOf(ctx, sb, f.repo)
	if err != nil {
		return err
	}
	sent := &reviewed{}
	w, err := b.Committed(ctx, offer.New)
	if err == nil {
		err = sent.lookCommitted(ctx, w, nil)
		w.Close()
	}
	if err != nil {
		return err
	}
	for _, n := range slices.Compact(append(seen.Notes, sent.Notes...)) {
		fmt.Fprintln(os.Stderr, "coffer:", terminal.Escape(n))
	}
	high := slices.ContainsFunc(append(seen.Findings, sent.Findings...), func(found changes.Finding) bool { return found.Level == changes.High })
	switch look := "coffer review " + b.Words(); {
	case loose > 0 && !f.force:
		return ui.Error(fmt.Sprintf("%s not committed in sandbox %s, and would not be sent", are(loose, "file"), sb.Name), fmt.Sprintf("commit there, see 'coffer diff %s'; or send the rest with --force", b.Words()))
	case high && !f.force:
		return ui.Error("nothing sent: there is something in it that deserves a look first", fmt.Sprintf("see '%s'; then send it with --force", look))
	case (seen.Partial || sent.Partial) && !f.force:
		return ui.Error(fmt.Sprintf("nothing sent: more than %d files were changed, and not all of them were looked into", maxReviewed),
			fmt.Sprintf("look at them with 'coffer diff %s PATH'; then send it with --force", b.Words()))
	case len(seen.Findings) > 0:
		fmt.Fprintf(os.Stderr, "coffer: %s to look at: '%s'\n", are(len(seen.Findings), "place"), look)
	}
	return nil
}

func (f *prFlags) words(to origin.Repository, head string, more []string) []string {
	args := []string{"pr", "create", "--repo=" + to.String(), "--head=" + head}
	for _, flag := range []struct{ name, value string }{{"title", f.title}, {"body", f.body}, {"base", f.base}} {
		if flag.value != "" {
			args = append(args, "--"+flag.name+"="+flag.value)
		}
	}
	if f.draft {
		args = append(args, "--draft")
	}
	if f.web {
		args = append(args, "--web")
	}
	own := func(word string) bool {
		name, _, _ := strings.Cut(word, "=")
		return slices.Contains([]string{"-t", "--title", "-f", "--fill", "--fill-first", "--fill-verbose", "-w", "--web"}, name)
	}
	// Nobody can be asked for what is missing: then it is what the commits say.
	if (f.title == "" || f.body == "") && !f.web && !slices.ContainsFunc(more, own) && !(terminal.IsTerminal(0) && terminal.IsTerminal(1)) {
		args = append(args, "--fill")
	}
	return args
}

// runTheirs runs a program of the user's on his terminal.
func runTheirs(program, dir string, args []string) error {
	c := exec.Command(program, args...)
	c.Dir, c.Stdin, c.Stdout, c.Stderr = dir, os.Stdin, stdout.To, os.Stderr
	err := c.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() > 0 {
		return status(exit.ExitCode())
	}
	return err
}

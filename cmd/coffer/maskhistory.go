package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
)

// history lists the files in the history of the current repository that would be hidden.
// cut says that there was no time for all of it, or that there are more.
func history(ctx context.Context, limit time.Duration) (list []supervisor.Committed, cut bool, err error) {
	rec, err := maskedHere()
	if err != nil {
		return nil, false, err
	}
	store, err := openStore()
	if err != nil {
		return nil, false, err
	}
	here := rec.Workspace.Path
	if err := guardPlanted(store, repositoryOf(here)); err != nil {
		return nil, false, err
	}
	r, err := git.Find(ctx, here)
	if errors.Is(err, git.ErrNoRepository) {
		return nil, false, ui.Error(here+" is not in a git repository", "change to one")
	}
	if err != nil {
		return nil, false, err
	}
	return supervisor.CommittedSecrets(ctx, r, rec.Masks, limit)
}

// showHistory serves 'coffer masks --history'.
func showHistory(ctx context.Context, match string, asJSON bool) error {
	if match != "" {
		return usagef("--history is about the current repository, not about a sandbox: leave out -m")
	}
	list, cut, err := history(ctx, 10*time.Minute)
	switch {
	case err != nil:
		return err
	case asJSON:
		return printJSON(list)
	}
	return printHistory(list, cut)
}

// printHistory shows it.
func printHistory(list []supervisor.Committed, cut bool) error {
	var t ui.Table
	for _, h := range list {
		t = append(t, []string{terminal.Escape(h.Path), fmt.Sprintf("%.12s", h.Commit), terminal.Escape(h.From) + ": " + pattern(h.Rule)})
	}
	err := t.Print(stdout)
	if cut {
		warn("that is not all of the history: there was too much of it")
	}
	if len(list) == 0 {
		fmt.Fprintln(os.Stderr, "no commit has added a file that would be hidden")
		return err
	}
	warn(fmt.Sprintf("%s, hidden or removed by now, can be read by programs in a sandbox with 'git show COMMIT:FILE': change what they give away, and take them out of the history if you can",
		count(len(list), "committed file")))
	return err
}

// historyPlace is where it is kept what the user was told about histories. One that programs
// in the sandbox could write to would be a way to write elsewhere.
func historyPlace(sb *sandbox.Sandbox) func() (string, error) {
	return func() (string, error) {
		p := wordPlaces()
		p.Dir = sb.Workspace.Path
		if _, err := p.TrustStore(); err != nil {
			return "", err
		}
		return filepath.Join(filepath.Dir(p.Trust), "history"), nil
	}
}

// warnHistory tells about the history of a repository in which coffer is used from now on.
func warnHistory(ctx context.Context) {
	list, _, err := history(ctx, 3*time.Second)
	if err != nil || len(list) == 0 {
		return
	}
	warn(fmt.Sprintf("programs in a sandbox can read %s in git's history, such as %s of commit %.12s: see 'coffer masks --history'",
		count(len(list), "committed file"), terminal.Escape(list[0].Path), list[0].Commit))
}

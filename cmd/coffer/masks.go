package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cofferhq/coffer/internal/attach"
	"github.com/cofferhq/coffer/internal/changes"
	"github.com/cofferhq/coffer/internal/config"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/hidden"
	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func masksCommand() *cobra.Command {
	var match string
	var asJSON, past bool
	c := &cobra.Command{
		Use:   "masks",
		Short: "List the files that sandboxes cannot read, and why",
		Long: `List the files that a sandbox over the current directory could not read, replace,
rename or remove, each with the line that says so: of .sandboxignore, of a config file,
or built in. With -m, those that are hidden from a sandbox. With --history, those that
commits of the repository have added, which can be read in git's objects.`,
		Example: `  coffer masks
  coffer masks --history
  coffer masks -m parser --json`,
		RunE: func(c *cobra.Command, _ []string) error {
			if past {
				return showHistory(c.Context(), asJSON)
			}
			list, root, err := listMasks(c.Context(), match)
			if err != nil {
				return err
			}
			hidden.MarkTracked(list, root)
			if asJSON {
				return printJSON(list)
			}
			return printMasks(list, root)
		},
	}
	matchFlag(c, &match)
	exclusive(c, "history match")
	c.Flags().BoolVar(&past, "history", false, "list files in git's history that would be hidden")
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return c
}

func listMasks(ctx context.Context, match string) (list []hidden.File, root string, err error) {
	var rec sandbox.Record
	if match == "" {
		rec, err = maskedHere()
	} else {
		var sb *sandbox.Sandbox
		if sb, err = forName.chosen(match); err == nil {
			if line, err := wire.Connect(sb); err == nil {
				defer line.Close()
				if list, err = hidden.Ask(line); err == nil {
					return list, sb.Workspace.Path, nil
				}
			}
			rec = sb.Record
		}
	}
	if err != nil {
		return nil, "", err
	}
	list = []hidden.File{}
	if rec.Workspace.Mode == sandbox.WorkspaceNone {
		return list, "", nil
	}
	tree, err := hidden.Open(&rec)
	if err != nil {
		return nil, "", err
	}
	defer tree.Close()
	r, err := tree.Scan(ctx)
	if err != nil {
		return nil, "", hidden.Problem(err)
	}
	for _, f := range r.Hidden {
		list = append(list, hidden.File{Path: filepath.Join(tree.Root, f.Path), Dir: f.Dir, Rule: f.Rule, From: f.From})
	}
	return list, tree.Root, nil
}

// maskedHere is the masks of a sandbox over the current directory, without what the user has not agreed to.
func maskedHere() (rec sandbox.Record, err error) {
	places, err := placesHere()
	if err != nil {
		return rec, err
	}
	rec.Workspace = sandbox.Workspace{Path: places.Dir, Mode: sandbox.WorkspaceDirect}
	l, err := places.Load()
	if err != nil || l == nil {
		return rec, err
	}
	rec.Masks = l.Masks()
	agreed, err := agreedTo(places, l)
	if err != nil {
		return rec, err
	}
	if shows := l.MasksShown(); len(shows) > 0 && !agreed {
		rec.Masks.Rules = slices.DeleteFunc(rec.Masks.Rules, func(m sandbox.Mask) bool {
			return slices.ContainsFunc(shows, func(r mask.Rule) bool { return r.From == m.From && r.Text == m.Line })
		})
		for _, r := range shows {
			warn(fmt.Sprintf("%s: %s does not count until you agree; see 'coffer trust'", terminal.Escape(r.From), pattern(r.Text)))
		}
	}
	return rec, nil
}

// pattern is a mask's line as it was written, with its backslashes.
func pattern(line string) string {
	return strings.ReplaceAll(terminal.Content(line), "\t", `\x09`)
}

// agreedTo says whether the user has agreed to what the repository's files ask for.
func agreedTo(places config.Places, l *config.Loaded) (bool, error) {
	widens, err := l.Widens(sandbox.PassesVariable)
	if err != nil || len(widens) == 0 {
		return true, err
	}
	store, err := places.TrustStore()
	if err != nil {
		return false, nil
	}
	return store.Has(l, widens)
}

func printMasks(list []hidden.File, root string) error {
	if len(list) == 0 {
		fmt.Fprintln(os.Stderr, "nothing is hidden")
		return nil
	}
	var t ui.Table
	tracked := 0
	for _, h := range list {
		path := h.Path
		if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) {
			path = rel
		}
		if h.Dir {
			path += "/"
		}
		note := ""
		if h.Tracked {
			note = "in git"
			tracked++
		}
		t = append(t, []string{terminal.Escape(path), terminal.Escape(h.From) + ": " + pattern(h.Rule), note})
	}
	err := t.Print(stdout)
	if tracked > 0 {
		warn(fmt.Sprintf("git has %s of these: programs in a sandbox can read them, and earlier versions, in its history; take them out of it, and change what they give away", count(tracked, "file")))
	}
	return err
}

// hiddenFrom says what of a workspace is hidden from a sandbox, until it is done.
func hiddenFrom(ctx context.Context, rec *sandbox.Record) (masked changes.Masked, done func(), err error) {
	tree, err := hidden.Open(rec)
	if err != nil {
		return nil, nil, err
	}
	covered, err := hidden.Covered(ctx, tree)
	if err != nil {
		tree.Close()
		return nil, nil, err
	}
	return func(path string, dir bool) bool { return covered(path) || tree.Hides(path, dir) != nil }, tree.Close, nil
}

func writeIgnore(root string) error {
	err := config.Create(root, mask.FileName, mask.Starter(), false)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return ui.Hint(fmt.Errorf("write %s: %w", mask.FileName, err), "what is built in is hidden without it")
	}
	fmt.Fprintf(os.Stderr, "coffer: wrote %s\n", terminal.Escape(filepath.Join(root, mask.FileName)))
	return nil
}

// A program that meets a masked file says "permission denied". So when one fails, what is hidden is named.

// failed says whether a program ended badly, and not because the user or a pipe ended it.
func failed(exit wire.Exit, err error) bool {
	return err == nil && exit.Status() != 0 && !slices.Contains([]syscall.Signal{unix.SIGINT, unix.SIGPIPE, unix.SIGTERM, unix.SIGHUP}, exit.Signal)
}

// tellHidden names what is hidden in a sandbox that stays, once.
func tellHidden(sb *sandbox.Sandbox, line *wire.Line) {
	told := filepath.Join(sb.Dir(), "hidden.told")
	if _, err := os.Lstat(told); err == nil {
		return
	}
	list, _ := hidden.Ask(line)
	if text := hiddenHere(sb.Workspace.Path, list); text != "" && os.WriteFile(told, nil, 0o600) == nil {
		attach.Note(fmt.Sprintf("%s; see 'coffer masks -m %s'", text, sb.Name))
	}
}

func hiddenHere(workspace string, list []hidden.File) string {
	var names []string
	for _, h := range list {
		if name, ok := strings.CutPrefix(h.Path, workspace+"/"); ok && workspace != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "hidden here: " + ui.Few(names)
}

// history lists the files in the repository's history that would be hidden. cut says that there are more.
func history(ctx context.Context, limit time.Duration) (list []hidden.Committed, cut bool, err error) {
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
	return hidden.InHistory(ctx, r, rec.Masks, limit)
}

func showHistory(ctx context.Context, asJSON bool) error {
	list, cut, err := history(ctx, 10*time.Minute)
	switch {
	case err != nil:
		return err
	case asJSON:
		return printJSON(list)
	}
	var t ui.Table
	for _, h := range list {
		t = append(t, []string{terminal.Escape(h.Path), fmt.Sprintf("%.12s", h.Commit), terminal.Escape(h.From) + ": " + pattern(h.Rule)})
	}
	err = t.Print(stdout)
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

// historyPlace is where it is noted what the user was told about histories, unless a sandbox could write there.
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

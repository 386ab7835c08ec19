package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/changes"
	"github.com/cofferhq/coffer/internal/checkpoint"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

// maxShown is the size from which a file's content is not shown or looked at.
const maxShown = 1 << 20

// how a diff is shown.
type diffStyle struct {
	stat, names, json bool
	pager             ui.Pager
	sandbox, repo     string
	paths             []string
}

// forDiff prefers sandboxes with changes of their own.
var forDiff = choice{keep: func(sb *sandbox.Sandbox) bool {
	return sb.Workspace.Mode == sandbox.WorkspaceCOW || sb.Workspace.Mode == sandbox.WorkspaceTree
}}

func diffCommand() *cobra.Command {
	var style diffStyle
	var match string
	c := &cobra.Command{
		Use:   "diff [MATCH] [PATH…]",
		Short: "Show what a sandbox has changed",
		Long: `Show what a sandbox has changed: in a worktree, all that is different from the commit
it started from (or the last one that you have too), committed or not, untracked files
as well; with copy-on-write, what waits for 'coffer apply'; otherwise, what is different
from the last commit of the repository. Two names of sandboxes show what is different
between their worktrees; with --repo, between those of a repository that both include.`,
		Example: "  coffer diff parser\n  coffer diff parser --stat\n  coffer diff parser src\n  coffer diff first-try second-try\n  coffer diff parser --repo library",
		RunE: func(c *cobra.Command, args []string) error {
			store, err := openStore()
			if err != nil {
				return err
			}
			args = named(match, args)
			sb, err := forDiff.choose(store, first(args))
			if err != nil {
				sb, err = forName.choose(store, first(args))
			}
			if err != nil {
				return err
			}
			style.sandbox, style.paths = sb.Name, fromTop(sb, rest(args))
			if other := otherSandbox(store, args); other != nil {
				style.paths = nil
				return readEnough(diffBetween(c.Context(), sb, other, style))
			}
			err = readEnough(diff(c.Context(), sb, style))
			if err == nil && style.repo == "" && len(style.paths) == 0 && !style.json {
				sayIncluded(c.Context(), sb, "diff")
			}
			return err
		},
	}
	c.Flags().BoolVar(&style.stat, "stat", false, "print how many lines of each file were changed")
	c.Flags().BoolVar(&style.json, "json", false, "print the list of changes as JSON")
	repoFlag(c, &style.repo)
	matchFlag(c, &match)
	c.Flags().BoolVar(&style.names, "names", false, "print the list of changes, without their content")
	style.pager.Command = pagerCommand
	c.Flags().BoolVar(&style.pager.Never, "no-pager", false, "print it all at once, also on a terminal")
	return c
}

func pagerCommand() string {
	value, ok := os.LookupEnv("GIT_PAGER")
	if !ok {
		value, ok = git.OwnSetting("core.pager")
	}
	if !ok {
		value, ok = os.LookupEnv("PAGER")
	}
	if !ok {
		value = "less"
	}
	return value
}

// readEnough accepts that the reader has left the pager before the end.
func readEnough(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// otherSandbox is the second sandbox that is named, in full: any other word is a path.
func otherSandbox(store *sandbox.Store, args []string) *sandbox.Sandbox {
	if len(args) != 2 {
		return nil
	}
	if other, err := store.Find(args[1]); err == nil && (other.Name == args[1] || other.ID == args[1]) {
		return other
	}
	return nil
}

func diff(ctx context.Context, sb *sandbox.Sandbox, style diffStyle) error {
	if sb.Workspace.Mode == sandbox.WorkspaceCOW && style.repo == "" {
		return diffCOW(ctx, sb, style)
	}
	w, err := workOf(ctx, sb, style.repo)
	if err != nil {
		return err
	}
	defer w.Close()
	return style.show(w.Files, func(d checkpoint.Delta) changes.File { return w.File(d, maxShown) })
}

func workOf(ctx context.Context, sb *sandbox.Sandbox, repo string) (*git.Work, error) {
	if sb.Workspace.Mode == sandbox.WorkspaceTree || repo != "" {
		b, err := bridgeOf(sb, repo)
		if err != nil {
			return nil, err
		}
		return b.Work(ctx)
	}
	if sb.Workspace.Path == "" {
		return nil, ui.Error(fmt.Sprintf("sandbox %s has no workspace", sb.Name), "see 'coffer show "+sb.Name+"'")
	}
	r, err := git.Find(ctx, sb.Workspace.Path)
	if err == nil {
		var w *git.Work
		if w, err = r.Work(ctx); err == nil {
			return w, leaveOutHidden(ctx, sb, r.Top, w)
		}
	}
	modes := "--workspace worktree or --workspace cow"
	if errors.Is(err, git.ErrNoRepository) {
		err, modes = errors.New("it is in no git repository"), "--workspace cow"
	}
	return nil, ui.Hint(fmt.Errorf("sandbox %s writes to %s directly, and there is nothing to compare that with: %w", sb.Name, sb.Workspace.Path, err),
		"use %s when you make a sandbox", modes)
}

// leaveOutHidden drops the user's hidden files from the changes in his directory: no program inside made them.
func leaveOutHidden(ctx context.Context, sb *sandbox.Sandbox, top string, w *git.Work) error {
	hidden, done, err := hiddenFrom(ctx, &sb.Record)
	if err != nil {
		w.Close()
		return err
	}
	defer done()
	w.Files = slices.DeleteFunc(w.Files, func(d checkpoint.Delta) bool {
		path, err := filepath.Rel(sb.Workspace.Path, filepath.Join(top, d.Path))
		return err == nil && filepath.IsLocal(path) && hidden(path, false)
	})
	return nil
}

func diffCOW(ctx context.Context, sb *sandbox.Sandbox, style diffStyle) error {
	hidden, done, err := hiddenFrom(ctx, &sb.Record)
	if err != nil {
		return err
	}
	defer done()
	switch {
	case style.json || style.names:
		looked := ui.Busy("looking for changes")
		list, err := changes.List(ctx, sb.Workspace.Path, sb.Upper(), hidden)
		looked()
		var rows []changedFile
		for _, c := range list {
			if style.wants(c.Path) {
				rows = append(rows, changedFile{changes.Quote(c.Path), c.Kind.String(), string(c.Skipped)})
			}
		}
		if err := none(err); err != nil {
			return err
		}
		if len(rows) == 0 && len(style.paths) > 0 {
			return style.nothingThere()
		}
		return printChanges(rows, style.json)
	case style.stat:
		var all []changes.File
		err := none(changes.Each(ctx, sb.Workspace.Path, sb.Upper(), maxShown, hidden, func(_ changes.Change, f changes.File) error {
			if (f.Old.Mode != 0 || f.New.Mode != 0) && style.wants(f.Path) {
				all = append(all, slim(f))
			}
			return nil
		}))
		if err == nil && len(all) == 0 && len(style.paths) > 0 {
			err = style.nothingThere()
		}
		if err != nil {
			return err
		}
		return style.printStat(all)
	}
	out, finish := style.pager.Diff(stdout)
	defer finish()
	err = changes.Diff(ctx, out, sb.Workspace.Path, sb.Upper(), changes.DiffOptions{Paths: style.paths, Masked: hidden})
	if errors.Is(err, changes.ErrNoMatch) || errors.Is(err, fs.ErrNotExist) && len(style.paths) > 0 {
		return style.nothingThere()
	}
	return none(err)
}

func diffBetween(ctx context.Context, a, b *sandbox.Sandbox, style diffStyle) error {
	var both [2]*git.Bridge
	for i, sb := range []*sandbox.Sandbox{a, b} {
		if sb.Workspace.Mode != sandbox.WorkspaceTree && style.repo == "" {
			return ui.Error(fmt.Sprintf("sandbox %s has no worktree, and two can be compared only if both have", sb.Name),
				fmt.Sprintf("for a path of this name, write ./%s", terminal.Escape(sb.Name)))
		}
		var err error
		if both[i], err = bridgeOf(sb, style.repo); err != nil {
			return err
		}
	}
	all, err := git.Between(ctx, both[0], both[1])
	if err != nil {
		return err
	}
	return style.show(all, func(d checkpoint.Delta) changes.File { return git.FileBetween(both[0], both[1], d, maxShown) })
}

func (s diffStyle) wants(p string) bool {
	return len(s.paths) == 0 || slices.ContainsFunc(s.paths, func(want string) bool {
		want = path.Clean(want)
		return want == "." || p == want || strings.HasPrefix(p, want+"/")
	})
}

// nothingThere is about paths that were asked for and are the same on both sides.
func (s diffStyle) nothingThere() error {
	return ui.Error("nothing is different at "+strings.Join(s.paths, ", "), "paths are relative to the top of the workspace; see 'coffer diff --names "+s.sandbox+"'")
}

func (s diffStyle) show(all []checkpoint.Delta, read func(checkpoint.Delta) changes.File) error {
	wanted := slices.DeleteFunc(slices.Clone(all), func(d checkpoint.Delta) bool { return !s.wants(d.Path) })
	if len(wanted) == 0 && len(s.paths) > 0 {
		return s.nothingThere()
	}
	switch {
	case s.json || s.names:
		var rows []changedFile
		for _, d := range wanted {
			rows = append(rows, changedFile{Path: changes.Quote(d.Path), Kind: kindOf(d).String()})
		}
		return printChanges(rows, s.json)
	case s.stat:
		files := make([]changes.File, 0, len(wanted))
		for _, d := range wanted {
			files = append(files, slim(read(d)))
		}
		return s.printStat(files)
	}
	painted, finish := s.pager.Diff(stdout)
	defer finish()
	out := bufio.NewWriter(painted)
	for _, d := range wanted {
		f := read(d)
		if f.Old.Mode != 0 && f.New.Mode != 0 && f.Old.Mode>>12 != f.New.Mode>>12 {
			// A type change is a deletion and an addition, for git too.
			changes.WriteFile(out, f.Path, f.Old, changes.Side{})
			f.Old = changes.Side{}
		}
		changes.WriteFile(out, f.Path, f.Old, f.New)
	}
	return out.Flush()
}

func kindOf(d checkpoint.Delta) changes.Kind {
	switch {
	case d.Old.Mode == 0:
		return changes.Added
	case d.New.Mode == 0:
		return changes.Deleted
	case d.Old.Mode>>12 != d.New.Mode>>12:
		return changes.TypeChanged
	case d.Old.ID == d.New.ID:
		return changes.ModeChanged
	}
	return changes.Modified
}

// slim keeps of a file's diff only the lines that count, as its new text.
func slim(f changes.File) changes.File {
	if f.Old.Huge || f.New.Huge || changes.IsBinary(f.Old.Text) || changes.IsBinary(f.New.Text) {
		f.Old.Text, f.New.Text = nil, nil
		f.Old.Huge = true
		return f
	}
	plus, minus := 0, 0
	for line := range bytes.Lines(changes.Hunks(f.Old.Text, f.New.Text)) {
		switch line[0] {
		case '+':
			plus++
		case '-':
			minus++
		}
	}
	f.Old.Text, f.New.Text, f.New.Size, f.Old.Size = nil, nil, int64(plus), int64(minus)
	return f
}

func (s diffStyle) printStat(files []changes.File) error {
	to, finish := s.pager.Page(stdout)
	defer finish()
	out := bufio.NewWriter(to)
	const columns = 40
	width, most := 0, int64(columns)
	var plus, minus int64
	for _, f := range files {
		width = max(width, len(changes.Quote(f.Path)))
		if !f.Old.Huge {
			most = max(most, f.New.Size+f.Old.Size)
			plus, minus = plus+f.New.Size, minus+f.Old.Size
		}
	}
	bar := func(sign string, n int64) string { return strings.Repeat(sign, int((n*columns+most-1)/most)) }
	for _, f := range files {
		fmt.Fprintf(out, " %-*s | ", width, changes.Quote(f.Path))
		if f.Old.Huge {
			fmt.Fprintf(out, "binary or large, %d -> %d bytes\n", f.Old.Size, f.New.Size)
		} else {
			fmt.Fprintf(out, "%d %s%s\n", f.New.Size+f.Old.Size, bar("+", f.New.Size), bar("-", f.Old.Size))
		}
	}
	fmt.Fprintf(out, " %s changed, %s added, %s removed\n", count(len(files), "file"), count(int(plus), "line"), count(int(minus), "line"))
	return out.Flush()
}

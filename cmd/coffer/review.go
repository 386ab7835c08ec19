package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cofferhq/coffer/internal/changes"
	"github.com/cofferhq/coffer/internal/checkpoint"
	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/supervisor"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/cofferhq/coffer/internal/wire"
	"github.com/spf13/cobra"
)

// maxReviewed bounds the files that are looked into, and maxFindings the findings of one level.
const (
	maxReviewed = 20000
	maxFindings = 2000
)

// A report is what review has to say.
type reviewed struct {
	Sandbox  string            `json:"sandbox"`
	Since    string            `json:"since"` // what the workspace was compared with
	Commits  []string          `json:"commits,omitempty"`
	Files    []changedFile     `json:"files"`
	Findings []changes.Finding `json:"findings"`
	Notes    []string          `json:"notes,omitempty"`
	// Partial says that there are too many files to have looked into all of them.
	Partial bool `json:"partial,omitempty"`

	repo string                // one that is included
	said map[changes.Level]int // how many findings there are of each
}

func reviewCommand() *cobra.Command {
	var asJSON bool
	var repo string
	c := &cobra.Command{
		Use:   "review [MATCH]",
		Short: "Point at what to check before you open or merge the work",
		Long: `Look at what a sandbox has changed, and point at what deserves a second look before
you open the directory in an editor or merge it: what runs by itself outside of the
sandbox (hooks, editor tasks, .envrc, install scripts, settings for agents, CI), what
hides (characters that do not show, links that lead out, nested git directories), new
hosts in lock files, programs, and what looks like a secret. Nothing of it is run.`,
		Example: "  coffer review parser\n  coffer review parser --json | jq '.findings[] | select(.level==\"high\")'",
		RunE: onSandbox(func(c *cobra.Command, sb *sandbox.Sandbox) error {
			r, err := reviewOf(c.Context(), sb, repo)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(r)
			}
			err = r.print()
			if err == nil && repo == "" {
				sayIncluded(c.Context(), sb, "review")
			}
			return err
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	repoFlag(c, &repo)
	return c
}

func reviewOf(ctx context.Context, sb *sandbox.Sandbox, repo string) (*reviewed, error) {
	r := &reviewed{Sandbox: sb.Name, repo: repo, Files: []changedFile{}, Findings: []changes.Finding{}}
	var err error
	switch {
	case sb.Workspace.Mode == sandbox.WorkspaceCOW && repo == "":
		err = r.lookCOW(ctx, sb)
	default:
		bringRunning(sb)
		var w *git.Work
		if w, err = workOf(ctx, sb, repo); err == nil {
			err = r.lookWork(ctx, w)
			w.Close()
		} else if sb.Workspace.Mode == sandbox.WorkspaceDirect && repo == "" {
			err = r.lookNewer(ctx, sb)
		}
	}
	if err != nil {
		return nil, err
	}
	if b, err := bridgeOf(sb, repo); err == nil && b.Behind() {
		r.Notes = append(r.Notes, "commits were made inside that were not brought over: 'coffer exec -m "+sb.Name+" -- true' does")
	}
	r.sort()
	return r, nil
}

// bringRunning syncs a sandbox that runs. A failure is reported and stops nothing.
func bringRunning(sb *sandbox.Sandbox) {
	if !sb.HasGit() {
		return
	}
	line, err := wire.Connect(sb)
	if err != nil {
		return
	}
	defer line.Close()
	notes, err := supervisor.Sync(line)
	for _, n := range notes {
		fmt.Fprintln(os.Stderr, "coffer:", terminal.Escape(n))
	}
	if err != nil && sb.Running() {
		report(fmt.Errorf("commits were not brought over: %w", err))
	}
}

// file notes that a file was changed, and says whether it is to be looked into.
func (r *reviewed) file(path string, kind changes.Kind) bool {
	r.Files = append(r.Files, changedFile{Path: changes.Quote(path), Kind: kind.String()})
	return r.into(len(r.Files), "files")
}

// into says whether the nth of something is looked into, or only its name is looked at.
func (r *reviewed) into(n int, what string) bool {
	if n == maxReviewed+1 {
		r.Partial = true
		r.Notes = append(r.Notes, fmt.Sprintf("only the first %d %s were looked into; of the others, only the names were looked at", maxReviewed, what))
	}
	return n <= maxReviewed
}

// byName is a file of which no more is known than its name and kind.
func byName(d checkpoint.Delta) changes.File {
	return changes.File{Path: d.Path, Old: changes.Side{Mode: d.Old.Mode}, New: changes.Side{Mode: d.New.Mode}}
}

func (r *reviewed) add(found []changes.Finding) {
	for _, f := range found {
		f.Path = changes.Quote(f.Path)
		if r.said[f.Level] < maxFindings && !slices.Contains(r.Findings, f) {
			r.Findings = append(r.Findings, f)
			if r.said == nil {
				r.said = map[changes.Level]int{}
			}
			r.said[f.Level]++
		}
	}
}

// lookWork looks at the files of a directory and at the commits of its branch.
func (r *reviewed) lookWork(ctx context.Context, w *git.Work) (err error) {
	r.Since = w.Since
	if r.Commits, err = w.Commits(ctx, 200); err != nil {
		return err
	}
	here := map[checkpoint.Delta]bool{}
	for _, d := range w.Files {
		here[d] = true
		f := byName(d)
		if r.file(d.Path, kindOf(d)) {
			f = w.File(d, maxShown)
		}
		r.add(changes.Review(f))
	}
	if err := r.lookCommitted(ctx, w, here); err != nil {
		return err
	}
	for _, o := range w.Odd {
		r.add(changes.ReviewOdd(o.Path, o.What))
	}
	err = w.Aside(ctx, func(path string, mode uint32) { r.add(changes.ReviewIgnored(path, mode)) }, func(path, what string) {
		if what == "git" {
			r.add(changes.ReviewOdd(path, what))
		}
	})
	if errors.Is(err, checkpoint.ErrTooMany) {
		r.Notes = append(r.Notes, "there are too many ignored files to look at all of their names")
		err = nil
	}
	return err
}

// lookCommitted looks at the commits of a branch. here is what is the same in the files.
func (r *reviewed) lookCommitted(ctx context.Context, w *git.Work, here map[checkpoint.Delta]bool) error {
	last := map[string]bool{}
	for i, d := range w.Committed {
		last[d.New.ID] = true
		f := byName(d)
		if r.into(i+1, "files of the branch") {
			// Also what is in the files, which may have been others when they were read.
			f = w.CommittedFile(d, maxShown)
		}
		found := changes.Review(f)
		for i := range found {
			if !here[d] {
				found[i].What += " (in the branch, not in the files)"
			}
		}
		r.add(found)
	}
	passing, err := w.Passing(ctx)
	if err != nil {
		return err
	}
	n := 0
	for id, path := range passing {
		if !last[id] {
			last[id] = true
			if n++; r.into(n, "files of earlier commits") {
				r.add(changes.ReviewPassing(path, w.Text(id, maxShown)))
			}
		}
	}
	return nil
}

// lookCOW looks at what waits to be applied.
func (r *reviewed) lookCOW(ctx context.Context, sb *sandbox.Sandbox) error {
	r.Since = sb.Workspace.Path
	hidden, done, err := hiddenFrom(ctx, &sb.Record)
	if err != nil {
		return err
	}
	defer done()
	return none(changes.Each(ctx, sb.Workspace.Path, sb.Upper(), maxShown, hidden, func(c changes.Change, f changes.File) error {
		if !r.file(c.Path, c.Kind) {
			f.Old.Text, f.New.Text = nil, nil
		}
		switch {
		case c.Skipped != "":
			if c.Kind != changes.Deleted {
				r.add(changes.ReviewOdd(c.Path, string(c.Skipped)))
			}
		case f.New.Mode != 0:
			// The kernel's modes to git's.
			f.New.Mode, f.Old.Mode = gitMode(f.New.Mode), gitMode(f.Old.Mode)
			r.add(changes.Review(f))
		}
		return nil
	}))
}

func gitMode(mode uint32) uint32 {
	switch {
	case mode == 0 || mode>>12 == 0o12:
		return mode
	case mode&0o111 != 0:
		return checkpoint.Executable
	}
	return checkpoint.Regular
}

// lookNewer looks at files that changed since the sandbox was made, by the ctime, which no program can set.
func (r *reviewed) lookNewer(ctx context.Context, sb *sandbox.Sandbox) error {
	r.Since = sb.Created.Local().Format("2006-01-02 15:04:05")
	r.Notes = append(r.Notes, "the workspace is in no git repository: files were looked at that changed since the sandbox was made, by whomever")
	since := sb.Created.UnixNano()
	return checkpoint.Walk{
		Ignore: checkpoint.NewIgnore(),
		Odd:    func(path, what string) { r.add(changes.ReviewOdd(path, what)) },
		Visit: func(_ *checkpoint.Dir, _ string, e checkpoint.Entry) error {
			if e.Stat.Changed < since || !r.file(e.Path, changes.Modified) {
				return nil
			}
			d := checkpoint.Delta{Path: e.Path, New: checkpoint.Item{Mode: e.Mode}}
			r.add(changes.Review(changes.File{Path: e.Path, New: checkpoint.Side(sb.Workspace.Path, d, maxShown)}))
			return nil
		},
	}.Do(ctx, sb.Workspace.Path)
}

var levels = []changes.Level{changes.High, changes.Medium, changes.Low}

func (r *reviewed) sort() {
	slices.SortStableFunc(r.Findings, func(a, b changes.Finding) int {
		return cmp.Or(cmp.Compare(slices.Index(levels, a.Level), slices.Index(levels, b.Level)), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
}

// print shows it to a person. Everything of it may come from inside.
func (r *reviewed) print() error {
	title, words := "sandbox "+r.Sandbox, r.Sandbox
	if r.repo != "" {
		title, words = "repository "+r.repo+" of "+title, words+" --repo "+r.repo
	}
	fmt.Fprintf(stdout, "%s: %s changed since %s", title, count(len(r.Files), "file"), terminal.Escape(cmp.Or(short12(r.Since), "the beginning, as there is no commit yet")))
	if n := len(r.Commits); n > 0 {
		fmt.Fprintf(stdout, ", %s", count(n, "commit"))
	}
	fmt.Fprintln(stdout)
	if len(r.Findings) > 0 {
		fmt.Fprintln(stdout)
	}
	var t ui.Table
	counts := map[changes.Level]int{}
	for _, f := range r.Findings {
		counts[f.Level]++
		where := f.Path
		if f.Line > 0 {
			where += fmt.Sprintf(":%d", f.Line)
		}
		t.Add(string(f.Level), f.Rule, where, f.What)
	}
	if err := t.Print(stdout); err != nil {
		return err
	}
	fmt.Fprintln(stdout)
	if len(r.Findings) == 0 {
		fmt.Fprintln(stdout, "found nothing that runs by itself or hides; the rest was not checked")
	} else {
		fmt.Fprintf(stdout, "%d high, %d medium, %d low; read them with 'coffer diff %s PATH'\n", counts[changes.High], counts[changes.Medium], counts[changes.Low], words)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(os.Stderr, "coffer:", terminal.Escape(n))
	}
	return nil
}

// short12 shortens the name of a commit, and nothing else.
func short12(s string) string {
	if len(s) >= 40 {
		return s[:12]
	}
	return s
}

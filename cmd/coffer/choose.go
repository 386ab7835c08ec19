package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/terminal"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/spf13/cobra"
)

// choice is how a command finds the sandbox that the user means.
type choice struct {
	kind string                      // what kind it must be, with a space, or nothing
	keep func(*sandbox.Sandbox) bool // which ones can be meant at all
	none string                      // what to do when there is none here
}

var (
	forExec = choice{none: "make one with --create, or choose another with -m"}
	forName = choice{none: "name one: see 'coffer ls'"}
)

type (
	noneHere struct{ error } // no sandbox is over the current directory, nor of its repository
	noMatch  struct{ error } // no sandbox has the word in its name
)

// choose finds a sandbox by a word, or by the directory: its worktree, its workspace, else its repository.
func (c choice) choose(store *sandbox.Store, match string) (*sandbox.Sandbox, error) {
	if match != "" {
		sb, err := store.Find(match)
		if errors.Is(err, sandbox.ErrNotFound) {
			return nil, ui.Hint(noMatch{fmt.Errorf("no sandbox matches %q", match)}, "see 'coffer ls'")
		}
		return sb, err
	}
	here, err := spotHere()
	if err != nil {
		return nil, err
	}
	all, errs := store.List()
	if len(all) == 0 && len(errs) == 1 && !errors.As(errs[0], new(*sandbox.BrokenError)) {
		return nil, errs[0] // the store cannot be read
	}
	owned := slices.ContainsFunc(all, here.ownedBy)
	if c.keep != nil {
		all = only(all, c.keep)
	}
	hits := only(all, here.in)
	if len(hits) == 0 && !owned {
		hits = only(all, here.near)
	}
	switch {
	case len(hits) == 1:
		return hits[0], nil
	case len(hits) > 1:
		return nil, ui.Hint(fmt.Errorf("several sandboxes work on %s:\n%s", terminal.Escape(here.dir), listed(hits)), "name one of them")
	}
	return nil, ui.Hint(noneHere{fmt.Errorf("there is no %ssandbox over %s", c.kind, here.dir)}, "%s", c.none)
}

func (c choice) chosen(match string) (*sandbox.Sandbox, error) {
	store, err := openStore()
	if err != nil {
		return nil, err
	}
	return c.choose(store, match)
}

// onSandbox is the run of a command about the sandbox that its argument names, or the one here.
func onSandbox(run func(*cobra.Command, *sandbox.Sandbox) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		sb, err := forName.chosen(first(args))
		if err != nil {
			return err
		}
		return run(c, sb)
	}
}

func only(all []*sandbox.Sandbox, meant func(*sandbox.Sandbox) bool) (hits []*sandbox.Sandbox) {
	for _, sb := range all {
		if meant(sb) {
			hits = append(hits, sb)
		}
	}
	return hits
}

func listed(all []*sandbox.Sandbox) string {
	var t ui.Table
	for _, sb := range all {
		what := sb.Workspace.Mode
		if b, err := git.Open(sb.Dir()); err == nil && sb.Workspace.Mode == sandbox.WorkspaceTree {
			what += " on " + b.Branch
		}
		t.Add(sb.ID, sb.Name, what)
	}
	var lines strings.Builder
	_ = t.Print(&lines)
	return strings.TrimSuffix(lines.String(), "\n")
}

// matchFlag is how a sandbox is chosen where it is no argument, or need not be one.
func matchFlag(c *cobra.Command, match *string) {
	c.Flags().StringVarP(match, "match", "m", "", "the sandbox whose id starts with `MATCH`, or whose name contains it")
	_ = c.RegisterFlagCompletionFunc("match", completeSandbox)
}

func completeSandbox(_ *cobra.Command, given []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	for _, sb := range allSandboxes() {
		if !slices.Contains(given, sb.Name) {
			names = append(names, sb.Name+"\t"+sb.Workspace.Path)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func allSandboxes() []*sandbox.Sandbox {
	store, err := peekStore()
	if err != nil {
		return nil
	}
	all, _ := store.List()
	return all
}

// spot is the current directory, by which a sandbox is chosen when none is named.
type spot struct {
	dir    string // without symbolic links
	top    string // of the repository there, or ""
	common string // the git directory of the repository there, if that can be told
}

func currentDir() (string, error) {
	here, err := os.Getwd()
	if err == nil {
		here, err = filepath.EvalSymlinks(here)
	}
	if err != nil {
		return "", ui.Hint(fmt.Errorf("find the current directory: %w", err), "change to a directory that exists")
	}
	return here, nil
}

func spotHere() (s spot, err error) {
	if s.dir, err = currentDir(); err != nil {
		return s, err
	}
	s.top = repositoryOf(s.dir)
	if s.top != "" && rootfs.IsGitDir(s.top) {
		s.common = s.top
	} else if s.top != "" {
		// A directory that only claims to belong to a repository may be a sandbox's work.
		if r, err := rootfs.FindRepository(s.top); err == nil {
			s.common = r.Common
		}
	}
	return s, nil
}

// in says whether a sandbox works on this very place, or on the repository that it is in.
func (s spot) in(sb *sandbox.Sandbox) bool {
	path := sb.Workspace.Path
	return path != "" && (path == s.dir || path == s.top) || s.ownedBy(sb)
}

// ownedBy says whether this place is in a worktree that was made for a sandbox.
func (s spot) ownedBy(sb *sandbox.Sandbox) bool {
	w := sb.Workspace
	return w.Mode == sandbox.WorkspaceTree && (s.dir == w.Path || safepath.Within(s.dir, w.Path)) || includedIn(sb, s.dir) != ""
}

// near reports whether a sandbox has a worktree of this place's repository.
func (s spot) near(sb *sandbox.Sandbox) bool {
	if sb.Workspace.Mode != sandbox.WorkspaceTree {
		return false
	}
	b, err := git.Open(sb.Dir())
	return err == nil && (b.Start == s.dir || s.common != "" && b.Common == s.common)
}

// about reports whether a sandbox works on this place's repository, this directory or one above it.
func (s spot) about(sb *sandbox.Sandbox) bool {
	path := sb.Workspace.Path
	return s.in(sb) || s.near(sb) || path != "" && safepath.Within(s.dir, path) || s.top != "" && safepath.Within(path, s.top)
}

// several is how a command that ends sandboxes takes any number of them.
type several struct {
	match           []string
	all, everywhere bool
}

func (s *several) addTo(c *cobra.Command) {
	c.Flags().BoolVar(&s.all, "all", false, c.Name()+" the sandboxes of this repository or directory")
	c.Flags().BoolVar(&s.everywhere, "everywhere", false, c.Name()+" all sandboxes, wherever they work")
	c.Flags().StringArrayVarP(&s.match, "match", "m", nil, "a sandbox, by its `NAME` or id")
	_ = c.RegisterFlagCompletionFunc("match", completeSandbox)
}

// find returns the sandboxes, or an error. With --all or --everywhere both, the error being of damaged records.
func (s *several) find(c *cobra.Command, store *sandbox.Store, args []string) ([]*sandbox.Sandbox, error) {
	args = append(args, s.match...)
	switch {
	case s.all || s.everywhere:
		if len(args) > 0 {
			return nil, usagef("--all and --everywhere take no names")
		}
		return s.list(store)
	case len(args) == 0:
		args = []string{""} // the one over the current directory
	case slices.Contains(args, ""):
		return nil, usagef("a sandbox's name is not empty")
	}
	var list []*sandbox.Sandbox
	for _, a := range args {
		sb, err := forName.exactly(c, store, a)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(list, func(other *sandbox.Sandbox) bool { return other.ID == sb.ID }) {
			list = append(list, sb)
		}
	}
	return list, nil
}

func (s *several) list(store *sandbox.Store) ([]*sandbox.Sandbox, error) {
	list, errs := store.List()
	all := len(list)
	if !s.everywhere {
		here, err := spotHere()
		if err != nil {
			return nil, err
		}
		list = only(list, here.about)
	}
	if len(list) == 0 && all > 0 {
		fmt.Fprintln(os.Stderr, "coffer: no sandbox works here; --everywhere means those of all repositories")
	}
	return list, joined(errs)
}

// each calls f for every sandbox. Of several errors, found being one, each is reported with its hint.
func each(list []*sandbox.Sandbox, found error, f func(*sandbox.Sandbox) error) error {
	errs := []error{found}
	for _, sb := range list {
		errs = append(errs, f(sb))
	}
	return joined(errs)
}

// joined reports errors if they are several, and returns the exit status.
func joined(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	var code int
	for _, err := range errs {
		code = report(err)
	}
	return status(code)
}

// exactly is choose for a command that destroys or sends something: it asks if it is given less than a whole name or id.
func (c choice) exactly(cmd *cobra.Command, store *sandbox.Store, match string) (*sandbox.Sandbox, error) {
	sb, err := c.choose(store, match)
	if err != nil || match == "" || match == sb.Name || match == sb.ID {
		return sb, err
	}
	refusal := ui.Hint(noMatch{fmt.Errorf("no sandbox is called %q", match)}, "'coffer %s' takes a whole name: %s, perhaps?", cmd.Name(), sb.Name)
	question := fmt.Sprintf("No sandbox is called %q. %s %s?", match, strings.ToUpper(cmd.Name()[:1])+cmd.Name()[1:], sb.Name)
	return sb, agree(cmd, question, refusal)
}

// agree asks a question on the terminal. The answer is refusal if it is not yes, or there is no terminal.
func agree(c *cobra.Command, question string, refusal error) error {
	ctx, stop := interruptible(c)
	defer stop()
	yes, err := ui.Agree(ctx, question)
	if errors.Is(err, ui.ErrNoTerminal) || err == nil && !yes {
		return refusal
	}
	return err
}

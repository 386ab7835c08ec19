package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/checkpoint"
	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// A Way is how the work of a sandbox comes to the user's branch.
type Way int

// The ways, as git knows them.
const (
	Merge  Way = iota // a merge, or a fast-forward
	Squash            // all at once, staged, to be committed by the user
	Replay            // commit by commit, on top of the user's
)

// Taking is a sandbox's work on its way to the user's branch. Everything was looked at,
// and nothing was done yet.
type Taking struct {
	Branch string
	Tip    string
	Count  int // commits that the user does not have
	Loose  int // files of the sandbox that are not committed, and stay behind
	Hooks  []string

	bridge *Bridge
	into   *Repository
	way    Way
	args   []string
}

// maxReplayed bounds how many commits are replayed.
const maxReplayed = 5000

// Take looks whether the sandbox's commits can come to the checkout that a repository was
// found from.
func (b *Bridge) Take(ctx context.Context, r *Repository, way Way) (*Taking, error) {
	switch {
	case r.Common != b.Common:
		return nil, ui.Error(fmt.Sprintf("%s is not of the repository here", b.title()), fmt.Sprintf("run this in %s, or another checkout of it", strings.TrimSuffix(b.Common, "/.git")))
	case r.Top == "":
		return nil, ui.Error("there is no checkout here to merge into", "change to a worktree of the repository")
	case r.Top == b.Tree || safepath.Within(r.Top, b.Tree):
		return nil, ui.Error("this is the sandbox's own worktree", "change to your own checkout: the sandbox's work comes to the branch that is checked out there")
	case b.Behind():
		return nil, ui.Error(fmt.Sprintf("%s has not synced its latest commits with your repository yet", b.title()), b.fetchHint())
	}
	tip, err := b.Tip(ctx)
	if err != nil {
		return nil, err
	}
	head := r.Head(ctx)
	if head == "" {
		return nil, ui.Error("nothing is checked out here to merge into", "check out a branch")
	}
	t := &Taking{Branch: b.Branch, Tip: tip, bridge: b, into: r, way: way}
	// Each side that is new, without what the other has by another name.
	out, err := b.refs().run(ctx, "", "rev-list", "--reverse", "--topo-order", head+".."+tip)
	if err != nil {
		return nil, err
	}
	t.Count = len(strings.Fields(out))
	if t.Loose, err = t.loose(ctx); err != nil {
		return nil, err
	}
	if t.Count == 0 {
		return t, nil
	}
	if t.Hooks, err = t.changedHooks(ctx, head); err != nil {
		return nil, err
	}
	t.args, err = t.orders(ctx, head)
	return t, err
}

// orders are the words for git.
func (t *Taking) orders(ctx context.Context, head string) ([]string, error) {
	b, tip := t.bridge, t.Tip
	switch t.way {
	case Merge:
		return []string{"merge", b.Branch}, nil
	case Squash:
		return []string{"merge", "--squash", b.Branch}, nil
	}
	if forward, err := b.refs().contains(ctx, tip, head); err != nil || forward {
		return []string{"merge", "--ff-only", b.Branch}, err
	}
	out, err := b.refs().run(ctx, "", "rev-list", "--reverse", "--topo-order", "--no-merges", "--right-only", "--cherry-pick", head+"..."+tip)
	if err != nil {
		return nil, err
	}
	list := strings.Fields(out)
	switch {
	case len(list) == 0:
		return nil, nil
	case len(list) > maxReplayed:
		return nil, ui.Error(fmt.Sprintf("the sandbox has %d commits, too many to replay", len(list)), "merge them with 'coffer merge "+b.Name+"'")
	}
	return append([]string{"cherry-pick", "--allow-empty"}, list...), nil
}

// loose counts the files of the worktree that are not as in its branch.
func (t *Taking) loose(ctx context.Context) (int, error) {
	b := t.bridge
	if err := b.check(); errors.Is(err, ErrTreeGone) {
		return 0, nil
	}
	own, err := b.Repository(ctx)
	if err != nil {
		return 0, err
	}
	w, err := work(ctx, b.History(), b.Tree, t.Tip, "", checkpoint.NewIgnore(own.excludes()))
	if err != nil {
		return 0, err
	}
	defer w.Close()
	return len(w.Files), nil
}

// changedHooks lists the files that a hook of the user's could run, or be, after the
// merge, and that the sandbox has changed. Git runs hooks while it merges, with the new
// files in place.
func (t *Taking) changedHooks(ctx context.Context, head string) ([]string, error) {
	b, r, tip := t.bridge, t.into, t.Tip
	var suspects []string
	if p := r.config["core.hookspath"]; p != "" {
		if filepath.IsAbs(p) {
			p, _ = filepath.Rel(r.Top, p)
		}
		if p = path.Clean(filepath.ToSlash(p)); p != "." && !strings.HasPrefix(p, "..") {
			// What is beside it is often what the hook calls.
			top, _, _ := strings.Cut(p, "/")
			suspects = append(suspects, top)
		}
	}
	was, err := b.History().Manifest(ctx, head)
	if err != nil {
		return nil, err
	}
	common, err := b.refs().text(ctx, "merge-base", head, tip)
	if err == nil {
		was, err = b.History().Manifest(ctx, common)
	}
	if err != nil && code(err) != 1 {
		return nil, err
	}
	is, err := b.History().Manifest(ctx, tip)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, d := range checkpoint.Compare(was, is) {
		top, _, _ := strings.Cut(d.Path, "/")
		ours := func(name string) bool { return strings.EqualFold(top, name) }
		if d.New.Mode != 0 && (mask.SettingOf(top) == mask.Hook || slices.ContainsFunc(suspects, ours)) {
			all = append(all, d.Path)
		}
	}
	return all, nil
}

// Run has git take the work, in the user's checkout, with the user's own settings, hooks,
// editor and terminal. Nothing is submodule's: git would fetch from where the sandbox says.
// It returns git's exit code.
func (t *Taking) Run(hooks bool) (int, error) {
	if len(t.args) == 0 {
		return 0, nil
	}
	words := []string{"-c", "submodule.recurse=false", "-c", "fetch.recurseSubmodules=false"}
	if !hooks {
		words = append(words, "-c", "core.hooksPath=/dev/null")
	}
	c := exec.Command(find(), append(words, t.args...)...)
	if find() == "" {
		return 0, missing(exec.ErrNotFound)
	}
	c.Dir, c.Stdin, c.Stdout, c.Stderr = filepath.Join(t.into.Top, t.into.Prefix), os.Stdin, os.Stdout, os.Stderr
	err := c.Run()
	if n := code(err); n > 0 {
		return n, nil
	}
	return 0, err
}

// Left says whether git has left conflicts for the user to resolve, and how to go on.
func (t *Taking) Left(ctx context.Context, r *Repository) (advice string, left bool) {
	here := func(name string) bool { return exists(filepath.Join(r.Dir, name)) }
	switch {
	case here("CHERRY_PICK_HEAD") || here("sequencer"):
		return "resolve the conflicts and go on with 'git cherry-pick --continue', or go back with 'git cherry-pick --abort'", true
	case here("MERGE_HEAD"):
		return "resolve the conflicts and conclude with 'git commit', or go back with 'git merge --abort'", true
	case t.way == Squash && here("SQUASH_MSG"):
		return "resolve the conflicts and conclude with 'git commit', or go back with 'git reset --merge'", true
	}
	return "", false
}

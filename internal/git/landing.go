package git

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/checkpoint"
	"github.com/cofferhq/coffer/internal/rootfs"
)

// A commit that was made over the user's own directory is on a branch of the sandbox's, while
// what it changes lies in the user's files already. Git would not merge it: it would overwrite
// changes. But the user's branch can move there, and the index with it, without touching a
// file.

// A Landing is such a move. Everything was looked at, and nothing was done yet.
type Landing struct {
	Branch  string // of the sandbox's
	To      string // the user's, or "HEAD"
	Commits int

	head, tip string
}

// Landing says how the user's branch gets to a sandbox's. It is nil if that is for git to
// merge: git is in the middle of something, it is no fast-forward, the files are not those of
// the branch, something else is staged, or there are submodules.
func (r *Repository) Landing(ctx context.Context, branch string) (*Landing, error) {
	if r.Top == "" || slices.ContainsFunc(busy, func(s busyState) bool { return exists(filepath.Join(r.Dir, s.file)) }) {
		return nil, nil
	}
	l := &Landing{Branch: branch, To: "HEAD", head: r.Head(ctx)}
	var err error
	if l.tip, err = r.git().text(ctx, "rev-parse", "--verify", "-q", "refs/heads/"+branch+"^{commit}"); err != nil || l.head == l.tip {
		return nil, err
	}
	if on, err := r.here().text(ctx, "symbolic-ref", "-q", "--short", "HEAD"); err == nil {
		l.To = on
	}
	span := l.tip
	if l.head != "" {
		span = l.head + ".." + l.tip
		if forward, err := r.git().contains(ctx, l.tip, l.head); err != nil || !forward {
			return nil, err
		}
	}
	n, err := r.git().text(ctx, "rev-list", "--count", span)
	if err == nil {
		_, err = fmt.Sscan(n, &l.Commits)
	}
	if err != nil {
		return nil, err
	}
	if ok, err := r.heldByFiles(ctx, l.head, l.tip); err != nil || !ok {
		return nil, err
	}
	return l, nil
}

// heldByFiles reports whether a branch and the index can move from a commit to another while
// the files stay: what is different between the two is different from the first in the files
// too, and what is staged is in one of the three. Git does not look at the files, which a
// sandbox wrote.
func (r *Repository) heldByFiles(ctx context.Context, head, tip string) (bool, error) {
	was, err := r.History().Manifest(ctx, head)
	if err != nil {
		return false, err
	}
	is, err := r.History().Manifest(ctx, tip)
	if err != nil {
		return false, err
	}
	w, err := r.Work(ctx)
	if err != nil {
		return false, err
	}
	defer w.Close()
	changed := map[string]bool{}
	for _, d := range w.Files {
		changed[d.Path] = true
	}
	same, all := 0, checkpoint.Compare(was, is)
	for _, d := range all {
		if d.Old.Mode == checkpoint.Gitlink || d.New.Mode == checkpoint.Gitlink {
			return false, nil
		}
		if !changed[d.Path] {
			same++
		}
	}
	if same > 0 && same == len(all) {
		return false, nil // the files are those of the first: git merges
	}
	index := filepath.Join(r.Dir, "index")
	entries, err := rootfs.Index(index)
	if err != nil {
		return !isFile(index), nil
	}
	for _, e := range entries {
		id := fmt.Sprintf("%x", e.ID)
		if e.Mode == checkpoint.Gitlink || was[e.Name].ID != id && is[e.Name].ID != id {
			return false, nil // a submodule, or staged and nowhere else
		}
	}
	return true, nil
}

// Land moves the user's branch and index.
func (r *Repository) Land(ctx context.Context, l *Landing) error {
	old := l.head
	if old == "" {
		old = strings.Repeat("0", len(l.tip))
	}
	if _, err := r.here().run(ctx, "", "update-ref", "-m", "coffer: fast-forward to "+l.Branch, "HEAD", l.tip, old); err != nil {
		return err
	}
	h := host{dir: r.Top, where: []string{"--git-dir=" + r.Dir, "--work-tree=" + r.Top}, locks: true}
	index := filepath.Join(r.Dir, "index")
	if l.head == "" || !isFile(index) {
		_, err := h.run(ctx, "", "read-tree", l.tip)
		return err
	}
	return moveIndex(ctx, h, index, l.head, l.tip)
}

// leftState is that of a sandbox of the repository that is gone.
func (r *Repository) leftState(name string) State {
	nowhere := filepath.Join(r.Common, "coffer-nowhere")
	return State{Name: name, Branch: "coffer/" + name, Common: r.Common, Admin: r.Dir, Tree: nowhere, Format: r.Format, Laid: true}
}

// Left is the branch of a sandbox that is gone, by the sandbox's name, or nil.
func (r *Repository) Left(ctx context.Context, name string) *Bridge {
	b := &Bridge{State: r.leftState(name)}
	b.dir = b.Tree
	b.seen.Inside = b.Glance()
	if !ValidRef("refs/heads/" + b.Branch) {
		return nil
	}
	if _, err := b.Tip(ctx); err != nil {
		return nil
	}
	return b
}

// MergedLeft are the branches of sandboxes of which everything is on a branch of the user's,
// but for those that are checked out or kept.
func (r *Repository) MergedLeft(ctx context.Context, keep func(branch string) bool) ([]string, error) {
	refs, err := r.git().list(ctx, wayRef+"/")
	if err != nil {
		return nil, err
	}
	at := map[string]string{}
	for _, ref := range refs {
		if ref.tree == "" && !keep(short(ref.Name)) {
			at[short(ref.Name)] = ref.ID
		}
	}
	state := r.leftState("")
	left := (&merges{&state, r.git()}).without(ctx, slices.Collect(maps.Values(at)), "refs/heads/")
	maps.DeleteFunc(at, func(_, id string) bool { return slices.Contains(left, id) })
	return slices.Sorted(maps.Keys(at)), nil
}

// DeleteBranches deletes branches, which git refuses for one that is checked out.
func (r *Repository) DeleteBranches(ctx context.Context, branches []string) error {
	_, err := r.git().run(ctx, "", append([]string{"branch", "-q", "-D", "--"}, branches...)...)
	return err
}

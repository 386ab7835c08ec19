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

// A commit that was made over the user's own directory is on a branch of the sandbox's, while what
// it changes lies in the user's files already. Git would not merge it: it would overwrite changes.
// But the user's branch can move there, and the index with it, and no file be touched.

// A Landing is such a move. Everything was looked at, and nothing was done yet.
type Landing struct {
	Branch  string // of the sandbox's
	To      string // the user's, or "HEAD"
	Commits int

	head, tip string
}

// Landing says how the user's branch gets to a branch of a sandbox's; nil if that is for git to
// merge: git is in the middle of something, it is no fast-forward, the files are not those of the branch, something else is
// staged, or there are submodules.
func (r *Repository) Landing(ctx context.Context, branch string) (*Landing, error) {
	if r.Top == "" || slices.ContainsFunc(busy, func(s struct{ file, command string }) bool { return exists(filepath.Join(r.Dir, s.file)) }) {
		return nil, nil
	}
	l := &Landing{Branch: branch, To: "HEAD", head: r.Head(ctx)}
	var err error
	if l.tip, err = r.git().text(ctx, "rev-parse", "--verify", "-q", "refs/heads/"+branch+"^{commit}"); err != nil {
		return nil, err
	}
	if l.head == l.tip {
		return nil, nil
	}
	if on, err := r.here().text(ctx, "symbolic-ref", "-q", "--short", "HEAD"); err == nil {
		l.To = on
	}
	span := l.tip
	if l.head != "" {
		span = l.head + ".." + l.tip
		if forward, err := (&session{Bridge: r.bridge()}).contains(ctx, l.tip, l.head); err != nil || !forward {
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

// bridge is one that leads to nothing but the repository.
func (r *Repository) bridge() *Bridge {
	nowhere := filepath.Join(r.Common, "coffer-nowhere")
	b := &Bridge{dir: nowhere, State: State{Common: r.Common, Admin: r.Dir, Tree: nowhere, Format: r.Format, Laid: true}}
	b.seen.Inside = b.look()
	return b
}

// Left is the branch of a sandbox that is gone, by the sandbox's name, or nil.
func (r *Repository) Left(ctx context.Context, name string) *Bridge {
	b := r.bridge()
	b.Name, b.Branch = name, "coffer/"+name
	if !plainRef(name) {
		return nil
	}
	if _, err := b.Tip(ctx); err != nil {
		return nil
	}
	return b
}

// MergedLeft are the branches of sandboxes of which all is on a branch of the user's, but for those
// that are checked out or kept.
func (r *Repository) MergedLeft(ctx context.Context, keep func(branch string) bool) ([]string, error) {
	b := r.bridge()
	refs, err := b.list(ctx, r.git(), "refs/heads/coffer/")
	if err != nil {
		return nil, err
	}
	at := map[string]string{}
	var ids []string
	for ref, t := range refs {
		if t.tree == "" && !keep(short(ref)) {
			at[short(ref)] = t.id
			ids = append(ids, t.id)
		}
	}
	left := b.unmerged(ctx, ids, "refs/heads/")
	maps.DeleteFunc(at, func(_, id string) bool { return slices.Contains(left, id) })
	return slices.Sorted(maps.Keys(at)), nil
}

// DeleteBranches deletes some, which git refuses for one that is checked out.
func (r *Repository) DeleteBranches(ctx context.Context, branches []string) error {
	_, err := r.git().run(ctx, "", append([]string{"branch", "-q", "-D", "--"}, branches...)...)
	return err
}

// heldByFiles says whether a branch and the index can move from a commit to another while the files
// stay: what is different between the two is different from the first in the files too, and what
// is staged is in one of the three. Git does not look at the files, which a sandbox wrote.
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
	if links, err := rootfs.Gitlinks(index); err != nil || len(links) > 0 {
		return false, err
	}
	entries, err := rootfs.Index(index)
	if err != nil {
		return !isFile(index), nil
	}
	for _, e := range entries {
		id := fmt.Sprintf("%x", e.ID)
		if was[e.Name].ID != id && is[e.Name].ID != id {
			return false, nil // staged, and nowhere else
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
	b := r.bridge()
	b.Tree = r.Top
	index := filepath.Join(r.Dir, "index")
	if l.head == "" || !isFile(index) {
		_, err := b.tree().run(ctx, "", "read-tree", l.tip)
		return err
	}
	return b.moveIndex(ctx, index, l.head, l.tip)
}

package git

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cofferhq/coffer/internal/changes"
	"github.com/cofferhq/coffer/internal/checkpoint"
)

// Work is what was done in a directory since a commit.
type Work struct {
	Since string // the commit; "" if there is none yet
	Tip   string // where the branch is now; "" if there is none of its own
	// Files is what is different in the directory, committed or not.
	Files []checkpoint.Delta
	// Committed is what is different in the branch.
	Committed []checkpoint.Delta
	// Odd is what lies in the directory and is no file: the path and what it is.
	Odd []Odd

	history *History
	root    string
	blobs   *Blobs
}

// An Odd thing is no file: a git directory, a device, or unreadable.
type Odd struct{ Path, What string }

// maxOdd bounds how many are kept.
const maxOdd = 10000

// Work finds what was done in the sandbox. The caller closes it.
func (b *Bridge) Work(ctx context.Context) (*Work, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	tip, err := b.Tip(ctx)
	if err != nil {
		return nil, err
	}
	since, err := b.since(ctx, tip)
	if err != nil {
		return nil, err
	}
	r, err := b.Repository(ctx)
	if err != nil {
		return nil, err
	}
	return work(ctx, b.History(), b.Tree, since, tip, checkpoint.NewIgnore(r.excludes()))
}

// Committed finds what a commit of the sandbox's brings, whatever is in its directory and
// wherever its branch is by now. The caller closes it.
func (b *Bridge) Committed(ctx context.Context, tip string) (w *Work, err error) {
	w = &Work{Tip: tip, history: b.History(), root: b.Tree}
	if w.Since, err = b.since(ctx, tip); err != nil {
		return nil, err
	}
	was, err := w.history.Manifest(ctx, w.Since)
	if err != nil {
		return nil, err
	}
	is, err := w.history.Manifest(ctx, tip)
	if err != nil {
		return nil, err
	}
	w.Committed = checkpoint.Compare(was, is)
	w.blobs, err = w.history.Blobs(ctx)
	return w, err
}

// Work finds what is different between the user's checkout and its last commit. Before the
// first one, that is everything.
func (r *Repository) Work(ctx context.Context) (*Work, error) {
	if r.Top == "" {
		return nil, errors.New("the repository has no checkout")
	}
	return work(ctx, r.History(), r.Top, r.Head(ctx), "", checkpoint.NewIgnore(string(r.excludes())))
}

func work(ctx context.Context, h *History, root, since, tip string, rules *checkpoint.Ignore) (w *Work, err error) {
	w = &Work{Since: since, Tip: tip, history: h, root: root}
	was, err := h.Manifest(ctx, since)
	if err != nil {
		return nil, err
	}
	is := was
	if tip != "" && tip != since {
		if is, err = h.Manifest(ctx, tip); err != nil {
			return nil, err
		}
		w.Committed = checkpoint.Compare(was, is)
	}
	if w.blobs, err = h.Blobs(ctx); err != nil {
		return nil, err
	}
	w.Files, err = checkpoint.Since(ctx, root, was, checkpoint.Options{
		Format: h.Format, Ignore: rules, Known: checkpoint.Known(was, is), Blob: w.blobs.Read,
		Odd: func(path, what string) {
			if len(w.Odd) < maxOdd {
				w.Odd = append(w.Odd, Odd{path, what})
			}
		},
	})
	if err != nil {
		w.Close()
		return nil, err
	}
	// Which commit of another repository a submodule is, is committed or it is nothing.
	for _, d := range w.Committed {
		if d.New.Mode == checkpoint.Gitlink || d.Old.Mode == checkpoint.Gitlink {
			w.Files = append(w.Files, d)
		}
	}
	return w, nil
}

// Close ends the reading.
func (w *Work) Close() { w.blobs.Close() }

// Has says whether there is something at a path of the directory.
func (w *Work) Has(path string) bool {
	root, err := os.OpenRoot(w.root)
	if err != nil {
		return false
	}
	defer root.Close()
	_, err = root.Lstat(path)
	return err == nil
}

// File reads both sides of what is different in the directory.
func (w *Work) File(d checkpoint.Delta, limit int64) changes.File {
	f := changes.File{Path: d.Path, Old: w.side(d.Old, limit)}
	if d.New.Mode == checkpoint.Gitlink {
		f.New = w.side(d.New, limit)
	} else {
		f.New = checkpoint.Side(w.root, d, limit)
	}
	return f
}

// CommittedFile reads both sides of what is different in the branch.
func (w *Work) CommittedFile(d checkpoint.Delta, limit int64) changes.File {
	return changes.File{Path: d.Path, Old: w.side(d.Old, limit), New: w.side(d.New, limit)}
}

func (w *Work) side(i checkpoint.Item, limit int64) changes.Side {
	s := changes.Side{Mode: i.Mode}
	switch i.Mode {
	case 0:
	case checkpoint.Gitlink:
		s.Text = fmt.Appendf(nil, "Subproject commit %s\n", i.ID)
	default:
		var err error
		s.Text, s.Size, err = w.blobs.Read(i.ID, limit)
		s.Huge = err != nil || s.Text == nil && s.Size > 0
	}
	return s
}

// Text reads a content that a commit brought.
func (w *Work) Text(id string, limit int64) []byte {
	text, _, _ := w.blobs.Read(id, limit)
	return text
}

// Passing lists contents that commits brought, also those that are gone again.
func (w *Work) Passing(ctx context.Context) (map[string]string, error) {
	if w.Tip == "" || w.Tip == w.Since {
		return nil, nil
	}
	return w.history.New(ctx, w.Since, w.Tip)
}

// Commits lists what the branch has.
func (w *Work) Commits(ctx context.Context, most int) ([]string, error) {
	if w.Tip == "" || w.Tip == w.Since {
		return nil, nil
	}
	return w.history.Commits(ctx, w.Since, w.Tip, most)
}

// Between says what is different in the directories of two sandboxes. The old side of
// each is the first one's.
func Between(ctx context.Context, a, b *Bridge) ([]checkpoint.Delta, error) {
	if a.Format != b.Format {
		return nil, errors.New("their repositories name objects differently")
	}
	var both [2]checkpoint.Manifest
	for i, one := range []*Bridge{a, b} {
		if err := one.check(); err != nil {
			return nil, err
		}
		r, err := one.Repository(ctx)
		if err != nil {
			return nil, err
		}
		tip, err := one.Tip(ctx)
		if err != nil {
			return nil, err
		}
		known, err := one.History().Manifest(ctx, tip)
		if err != nil {
			return nil, err
		}
		both[i], err = checkpoint.ReadTree(ctx, one.Tree, checkpoint.Options{Format: one.Format, Ignore: checkpoint.NewIgnore(r.excludes()), Known: checkpoint.Known(known)})
		if err != nil {
			return nil, err
		}
	}
	return checkpoint.Compare(both[0], both[1]), nil
}

// FileBetween reads both sides.
func FileBetween(a, b *Bridge, d checkpoint.Delta, limit int64) changes.File {
	return changes.File{Path: d.Path,
		Old: checkpoint.Side(a.Tree, checkpoint.Delta{Path: d.Path, New: d.Old}, limit), New: checkpoint.Side(b.Tree, d, limit)}
}

// Aside visits files that git ignores and that are not among what was compared: an editor
// opens them all the same.
func (w *Work) Aside(ctx context.Context, visit func(path string, mode uint32), odd func(path, what string)) error {
	known, err := w.history.Manifest(ctx, w.Since)
	if err != nil {
		return err
	}
	listed := map[string]bool{}
	for _, d := range w.Files {
		listed[d.Path] = true
	}
	return checkpoint.Walk{Odd: odd, Visit: func(_ *checkpoint.Dir, _ string, e checkpoint.Entry) error {
		if _, ok := known[e.Path]; !ok && !listed[e.Path] {
			visit(e.Path, e.Mode)
		}
		return nil
	}}.Do(ctx, w.root)
}

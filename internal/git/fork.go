package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/checkpoint"
)

// A Forked sandbox starts from a checkpoint of another one.
type Forked struct {
	Base string // the commit that its worktree starts from
	from *Checkpoints
	want checkpoint.Manifest
	n    int
}

// Fork finds what a sandbox that is to start from a checkpoint starts from; 0 is the last.
// The first is about its own repository, and others about those that it includes.
func (m *Moments) Fork(ctx context.Context, n int) (all []*Forked, err error) {
	if n == 0 {
		n = m.Last()
	}
	at, ok := m.Get(n)
	if !ok {
		return nil, fmt.Errorf("there is no checkpoint %d", n)
	}
	own, err := m.fork(ctx, at, n)
	if err != nil {
		return nil, err
	}
	all = append(all, own)
	for _, c := range m.included {
		at, ok := c.Then(n)
		if !ok {
			return nil, fmt.Errorf("%s: %w", c.bridge.Include, errForgotten)
		}
		f, err := c.fork(ctx, at, n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.bridge.Include, err)
		}
		all = append(all, f)
	}
	return all, nil
}

// fork is for one repository, which was as at its checkpoint when the moment was n.
func (c *Checkpoints) fork(ctx context.Context, at checkpoint.Checkpoint, n int) (*Forked, error) {
	f := &Forked{Base: at.Head, from: c, n: n}
	if at.Head == "" {
		f.Base = c.bridge.baseNow() // nothing was checked out that is understood
	}
	if f.Base == "" {
		return nil, ErrNoCommit
	}
	if _, err := c.bridge.refs().text(ctx, "rev-parse", "--verify", "-q", f.Base+"^{commit}"); err != nil {
		return nil, fmt.Errorf("the commit %.12s of checkpoint %d was not brought over", f.Base, n)
	}
	why, err := c.bridge.unfit(ctx, f.Base)
	if err != nil || why != "" {
		return nil, cmp.Or(err, fmt.Errorf("the commit %.12s of checkpoint %d was not brought over: %s", f.Base, n, why))
	}
	if f.want, err = c.Manifest(at.N); err == nil && c.bridge.Laid {
		f.leaveSubmodules()
	}
	return f, err
}

// leaveSubmodules leaves the files of submodules where they are: in a worktree, submodules
// are not checked out.
func (f *Forked) leaveSubmodules() {
	var links []string
	for p, item := range f.want {
		if item.Mode == checkpoint.Gitlink {
			links = append(links, p+"/")
		}
	}
	maps.DeleteFunc(f.want, func(p string, _ checkpoint.Item) bool {
		for _, l := range links {
			if strings.HasPrefix(p, l) {
				return true
			}
		}
		return false
	})
}

// prepare notes in the folder of a new bridge what its files are to be, before there
// are any.
func (f *Forked) prepare(ctx context.Context, folder, branch string) error {
	base, err := f.from.bridge.History().Manifest(ctx, f.Base)
	if err != nil {
		return err
	}
	to, err := checkpoint.Open(folder, f.from.bridge.Format, base)
	if err != nil {
		return err
	}
	if err := f.from.Lend(to, f.want); err != nil {
		return err
	}
	if err := to.Start(1, f.Base, branch); err != nil {
		return err
	}
	added, err := to.Add(checkpoint.Checkpoint{
		Command: fmt.Sprintf("(from %s at %d)", f.from.bridge.Name, f.n), Head: f.Base, Branch: branch, Files: len(checkpoint.Compare(base, f.want)),
	}, f.want)
	if err != nil {
		return err
	}
	if f.from.bridge.Include != "" {
		return nil // its number is that of the sandbox's own
	}
	return to.Note(added.N)
}

// Make makes what a new sandbox is to have of the repository. The included ones are made
// before its own, without which it is not complete: whoever is killed after that, the first
// start gives them their files.
func (f *Forked) Make(ctx context.Context, o Options) (*Bridge, error) {
	from := f.from.bridge
	r, err := from.Repository(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := r.Base(ctx, f.Base, o.Branch); err != nil {
		return nil, err
	}
	if o.Branch == "" {
		o.Branch = "coffer/" + o.Name
	}
	o.Base, o.Start = f.Base, from.Start
	if err := f.prepare(ctx, o.Folder, o.Branch); err != nil {
		return nil, err
	}
	return r.Create(ctx, o)
}

// Included is the name of the repository, if it is not the sandbox's own.
func (f *Forked) Included() string { return f.from.bridge.Include }

// MakeIncluded is Make for one that is not the sandbox's own. o is about the sandbox.
func (f *Forked) MakeIncluded(ctx context.Context, o Options) (*Bridge, error) {
	as := f.Included()
	dir := filepath.Join(o.Folder, includeName, as)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	b, err := f.Make(ctx, Options{
		ID: o.ID, Name: o.Name, Folder: dir, Tree: filepath.Join(dir, "workspace", as), Include: as, Inside: filepath.Join(o.Tree, includeAt, as),
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", as, err), os.RemoveAll(dir))
	}
	return b, nil
}

// Finish gives the new sandbox its files, but for those that are hidden.
func (b *Bridge) Finish(ctx context.Context, hidden Access, included []*Bridge) (failed map[string]error, err error) {
	m, err := b.Moments(ctx, hidden, included)
	if err != nil {
		return nil, err
	}
	n := m.Restoring()
	if failed, err = m.restoreFiles(ctx, n); err == nil {
		err = m.restoreIncluded(ctx, nil, n, failed)
	}
	if err != nil {
		return failed, err
	}
	return failed, m.Note(0)
}

// Repository is the one that the sandbox belongs to.
func (b *Bridge) Repository(ctx context.Context) (*Repository, error) {
	r := &Repository{Common: b.Common, Dir: b.Common, Prefix: b.Prefix, Format: b.Format}
	return r, r.readConfig(ctx)
}

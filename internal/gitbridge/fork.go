package gitbridge

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/cofferhq/coffer/internal/checkpoint"
	"github.com/cofferhq/coffer/internal/tree"
)

// A Forked sandbox starts from a checkpoint of another one.
type Forked struct {
	Base string // the commit that its worktree starts from
	from *Checkpoints
	want tree.Manifest
	n    int
}

// Fork finds what a sandbox that is to start from a checkpoint starts from; 0 is the last.
func (c *Checkpoints) Fork(ctx context.Context, n int) (*Forked, error) {
	all := c.All()
	if n == 0 {
		n = all[len(all)-1].N
	}
	at, ok := c.Get(n)
	if !ok {
		return nil, fmt.Errorf("there is no checkpoint %d", n)
	}
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
	var err error
	if f.want, err = c.Manifest(n); err == nil && c.bridge.Laid {
		f.leaveSubmodules()
	}
	return f, err
}

// leaveSubmodules leaves the files of submodules where they are: in a worktree, submodules
// are not checked out.
func (f *Forked) leaveSubmodules() {
	var links []string
	for p, item := range f.want {
		if item.Mode == tree.Gitlink {
			links = append(links, p+"/")
		}
	}
	maps.DeleteFunc(f.want, func(p string, _ tree.Item) bool {
		for _, l := range links {
			if strings.HasPrefix(p, l) {
				return true
			}
		}
		return false
	})
}

// Prepare notes in the folder of the new sandbox what its files are to be, before there
// are any: whoever is killed from here on, the first start finishes it.
func (f *Forked) Prepare(ctx context.Context, folder, branch string) error {
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
	if err := to.Start(f.Base, branch); err != nil {
		return err
	}
	added, err := to.Add(checkpoint.Checkpoint{
		Command: fmt.Sprintf("(from %s at %d)", f.from.bridge.Name, f.n), Head: f.Base, Branch: branch, Files: len(tree.Compare(base, f.want)),
	}, f.want)
	if err != nil {
		return err
	}
	return to.Note(added.N)
}

// Finish gives the new sandbox its files.
func (b *Bridge) Finish(ctx context.Context) (failed map[string]error, err error) {
	c, err := b.Checkpoints(ctx, Access{})
	if err != nil {
		return nil, err
	}
	if failed, err = c.restoreFiles(ctx, c.Restoring()); err != nil {
		return failed, err
	}
	return failed, c.Note(0)
}

// Repository is the one that the sandbox belongs to.
func (b *Bridge) Repository(ctx context.Context) (*Repository, error) {
	r := &Repository{Common: b.Common, Dir: b.Common, Prefix: b.Prefix, Format: b.Format}
	return r, r.readConfig(ctx)
}

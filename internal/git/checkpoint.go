package git

import (
	"context"
	"fmt"
	"slices"

	"github.com/cofferhq/coffer/internal/checkpoint"
)

// Checkpoints are those of one repository of a sandbox, with what has to be known to take
// and to restore them. All of them together are [Moments].
//
// In a worktree the first is the commit that it started from. A directory of the user's is
// as it is then: so the first is what was there, and the commit only what it is written
// down against.
type Checkpoints struct {
	*checkpoint.Store
	bridge *Bridge
	access Access
	rules  *checkpoint.Ignore
}

// Access says how the files of a workspace are reached, and which of them are hidden.
type Access struct {
	// Top, if set, opens the workspace as the sandbox sees it, which is not as the host
	// does, and says who is to own what is written there.
	Top func() (top *checkpoint.Dir, writer int, err error)
	// Hidden, if set, says which files the sandbox cannot see.
	Hidden func(path string) bool
	// HiddenIn, if set, says it of the worktrees of other repositories.
	HiddenIn func(tree, path string) bool
}

// Meanwhile is what is said of a checkpoint of what was changed while no program ran: by
// the user.
const Meanwhile = "(between commands)"

// checkpoints opens them. The first of a worktree has this number.
func (b *Bridge) checkpoints(ctx context.Context, access Access, first int) (*Checkpoints, error) {
	// A sandbox over a directory of the user's follows him to other commits; what its
	// checkpoints are written down against stays.
	commit := b.baseNow()
	all, _, err := checkpoint.Read(b.dir)
	if err != nil {
		return nil, err
	}
	if len(all) > 0 && b.Laid {
		commit = all[0].Base
	}
	base := checkpoint.Manifest{}
	if commit != "" {
		if base, err = b.History().Manifest(ctx, commit); err != nil {
			return nil, err
		}
	}
	r, err := b.Repository(ctx)
	if err != nil {
		return nil, err
	}
	store, err := checkpoint.Open(b.dir, b.Format, base)
	if err != nil {
		return nil, err
	}
	c := &Checkpoints{Store: store, bridge: b, access: access, rules: checkpoint.NewIgnore(r.excludes(), "/"+includeAt+"/\n")}
	if !b.Laid {
		store.Seed(func(context.Context) []checkpoint.Seed { return b.seeds() })
		return c, store.Start(first, b.Base, b.Branch)
	}
	// There, a file is to come back as it was, and not as git would check it out.
	if !r.converts(base) {
		store.Seed(func(context.Context) []checkpoint.Seed { return b.seeds() })
	}
	return c, nil
}

// baseNow is the commit that the sandbox started from, or follows; others may be at work.
func (b *Bridge) baseNow() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Base
}

// Checkpoint takes one of a worktree sandbox that does not run.
func (b *Bridge) Checkpoint(ctx context.Context, command string) error {
	c, err := b.checkpoints(ctx, Access{}, 1)
	if err == nil {
		_, err = c.take(ctx, c.now(command), false, nil)
	}
	return err
}

// open opens the workspace. The caller closes its top.
func (c *Checkpoints) open() (w *checkpoint.Workspace, err error) {
	if err := c.bridge.check(); err != nil {
		return nil, err
	}
	w = &checkpoint.Workspace{Ignore: c.rules, Hidden: c.access.Hidden}
	switch {
	case c.access.Top != nil:
		w.Top, w.Writer, err = c.access.Top()
	case c.bridge.Laid: // another sandbox may be able to write above it
		w.Top, err = checkpoint.OpenDirStrictly("/", c.bridge.Tree)
	default:
		w.Top, err = checkpoint.OpenDir(c.bridge.Tree)
	}
	return w, err
}

// now is what is to be said of a checkpoint that is taken now.
func (c *Checkpoints) now(command string) checkpoint.Checkpoint {
	about := checkpoint.Checkpoint{Command: command}
	if c.bridge.Laid {
		if about.Base = c.bridge.baseNow(); len(c.All()) == 0 {
			about.Command = "(start)"
		}
	}
	about.Head, about.Branch = c.bridge.private().head()
	return about
}

// take takes a checkpoint, if something changed since the last one, or in any case, and keeps
// the commit that is checked out from being forgotten, once it has arrived.
func (c *Checkpoints) take(ctx context.Context, about checkpoint.Checkpoint, anyway bool, arrived <-chan struct{}) (*checkpoint.Checkpoint, error) {
	w, err := c.open()
	if err != nil {
		return nil, err
	}
	defer w.Top.Close()
	taken, err := c.Store.Take(ctx, w, about, anyway)
	if err != nil || taken == nil {
		return nil, err
	}
	if arrived != nil {
		select {
		case <-arrived:
		case <-ctx.Done():
		}
	}
	c.keepHead(ctx, taken)
	return taken, nil
}

// quiet says, without looking at the files, whether a checkpoint would be as the last.
func (c *Checkpoints) quiet() bool {
	all := c.All()
	if len(all) == 0 || !c.Store.Quiet() {
		return false
	}
	head, branch := c.bridge.private().head()
	return all[len(all)-1].Head == head && all[len(all)-1].Branch == branch
}

// Shared says whether the user's own files can change below the workspace without anybody
// being told: the kernel tells only of what is done in the sandbox's view.
func (c *Checkpoints) Shared() bool { return c.access.Top != nil }

// arm looks at the files without taking a checkpoint, so that quiet can tell.
func (c *Checkpoints) arm(ctx context.Context) error {
	w, err := c.open()
	if err != nil {
		return err
	}
	defer w.Top.Close()
	_, _, err = c.Look(ctx, w)
	return err
}

// keepHead holds a commit that the checkpoint before does not hold. It may not have been
// brought over; then only the sandbox has it. Over a directory of the user's, the commit
// that checkpoints are written down against is held too, once there is one.
func (c *Checkpoints) keepHead(ctx context.Context, taken *checkpoint.Checkpoint) {
	b, all := c.bridge, c.All()
	if b.Laid && len(all) == 1 && taken.Base != "" {
		_, _ = b.refs().run(ctx, fmt.Sprintf("update %sbase %s\nupdate %s %s\n", b.own(), taken.Base, b.kept(0), taken.Base),
			"update-ref", "-m", madeFor+b.dir, "--create-reflog", "--stdin")
	}
	i := slices.IndexFunc(all, func(x checkpoint.Checkpoint) bool { return x.N == taken.N })
	if taken.Head == "" || taken.Head == taken.Base || i > 0 && all[i-1].Head == taken.Head {
		return
	}
	_ = b.ownRefs().move(ctx, b.why(), fmt.Sprintf("update %s %s\n", b.kept(taken.N), taken.Head))
}

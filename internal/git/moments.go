package git

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/cofferhq/coffer/internal/checkpoint"
	"github.com/cofferhq/coffer/internal/wire"
)

// Moments are the checkpoints of all repositories of a sandbox, its own and those that it
// includes: to go back to one takes all of them back.
//
// The list of the sandbox's own repository counts, and its numbers are everybody's. Another
// one has a checkpoint only where its own files changed, with the number of that moment, and
// is taken before it is on the list. So what it was at a moment is its newest up to that number,
// and one that is newer than the list was taken by somebody who was killed.
type Moments struct {
	*Checkpoints // of the sandbox's own repository
	included     []*Checkpoints
}

// Moments opens them. Whoever does holds the sandbox's lock, or is its supervisor. access is
// about the sandbox's own files.
func (b *Bridge) Moments(ctx context.Context, access Access, included []*Bridge) (*Moments, error) {
	own, err := b.checkpoints(ctx, access, 1)
	if err != nil {
		return nil, err
	}
	m := &Moments{Checkpoints: own}
	for _, i := range included {
		var other Access
		if access.HiddenIn != nil {
			other.Hidden = func(path string) bool { return access.HiddenIn(i.Tree, path) }
		}
		more, err := i.checkpoints(ctx, other, max(own.Last(), 1))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.Include, err)
		}
		m.included = append(m.included, more)
	}
	return m, nil
}

// Take takes a checkpoint, if something changed since the last one.
func (m *Moments) Take(ctx context.Context, command string) (*checkpoint.Checkpoint, error) {
	return m.take(ctx, command, false, nil)
}

// TakeMeanwhile is Take while commits are brought over, which have arrived when the channel is
// closed.
func (m *Moments) TakeMeanwhile(ctx context.Context, command string, arrived <-chan struct{}) (*checkpoint.Checkpoint, error) {
	return m.take(ctx, command, false, arrived)
}

func (m *Moments) take(ctx context.Context, command string, anyway bool, arrived <-chan struct{}) (*checkpoint.Checkpoint, error) {
	more, err := m.takeIncluded(ctx, command, arrived)
	if err != nil {
		return nil, err
	}
	about := m.now(command)
	about.Included = more
	return m.Checkpoints.take(ctx, about, anyway || more != nil, arrived)
}

// takeIncluded takes those of the repositories in which something changed, and says in which,
// and how many files. One whose worktree is gone has nothing to keep.
func (m *Moments) takeIncluded(ctx context.Context, command string, arrived <-chan struct{}) (more map[string]int, err error) {
	n := m.Next()
	for _, c := range m.included {
		about := c.now(command)
		about.N = n
		_, err := c.take(ctx, about, false, arrived)
		switch {
		case errors.Is(err, ErrTreeGone):
		case err != nil:
			return nil, fmt.Errorf("%s: %w", c.bridge.Include, err)
		case c.Last() >= n:
			if more == nil {
				more = map[string]int{}
			}
			last, _ := c.Get(c.Last())
			more[c.bridge.Include] = last.Files
		}
	}
	return more, nil
}

// Quiet says, without looking at the files, whether a checkpoint would be as the last.
func (m *Moments) Quiet() bool {
	for _, c := range m.included {
		if !c.quiet() || c.Last() > m.Last() {
			return false
		}
	}
	return m.quiet()
}

// Arm looks at the files without taking a checkpoint, so that [Moments.Quiet] can tell.
func (m *Moments) Arm(ctx context.Context) error {
	err := m.arm(ctx)
	for _, c := range m.included {
		err = errors.Join(err, c.arm(ctx))
	}
	return err
}

// Rest gives back what it takes to say so.
func (m *Moments) Rest() {
	m.Checkpoints.Rest()
	for _, c := range m.included {
		c.Rest()
	}
}

// Undo brings back the files and the commits of a checkpoint. What is there now must be a
// checkpoint already, and what is there then becomes another. It returns that one, and
// what could not be brought back.
func (m *Moments) Undo(ctx context.Context, o wire.Opener, n int) (now *checkpoint.Checkpoint, failed map[string]error, err error) {
	if err := m.Note(n); err != nil {
		return nil, nil, err
	}
	return m.Resume(ctx, o)
}

// Resume restores the checkpoint that is noted: it is what Undo does, and what is done
// when somebody was killed in the middle of it. o is nil if nothing runs in the sandbox
// yet, and then only the files are restored.
func (m *Moments) Resume(ctx context.Context, o wire.Opener) (now *checkpoint.Checkpoint, failed map[string]error, err error) {
	n := m.Restoring()
	target, ok := m.Get(n)
	if !ok {
		return nil, nil, errors.Join(fmt.Errorf("there is no checkpoint %d", n), m.Note(0))
	}
	if failed, err = m.restore(ctx, o, target); err != nil {
		return nil, failed, err
	}
	if err := m.restoreIncluded(ctx, o, n, failed); err != nil {
		return nil, failed, err
	}
	if now, err = m.take(ctx, fmt.Sprintf("(back to %d)", n), true, nil); err != nil {
		return nil, failed, err
	}
	return now, failed, m.Note(0)
}

// errForgotten is about a repository with so many checkpoints that old ones were thrown away.
var errForgotten = errors.New("what it was then was not kept")

// restoreIncluded brings back what the included repositories were at a moment. What goes wrong
// in one of them is noted, and does not hold up the others.
func (m *Moments) restoreIncluded(ctx context.Context, o wire.Opener, n int, failed map[string]error) error {
	for _, c := range m.included {
		at, ok := c.Then(n)
		place := path.Join(includeAt, c.bridge.Include)
		if !ok {
			failed[place] = errForgotten
			continue
		}
		not, err := c.restore(ctx, o, at)
		for p, why := range not {
			failed[path.Join(place, p)] = why
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !errors.Is(err, ErrTreeGone) {
			failed[place] = err
		}
	}
	return nil
}

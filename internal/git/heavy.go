package git

import (
	"bytes"
	"context"
	"errors"
)

// A few small trees that name each other many times are more files than any disk has. Git stores
// such a commit, but whoever reads it into an index waits forever. So no branch outside moves to a
// commit with more entries than this, or with longer names together. Tests set other bounds.
var (
	maxPaths     = 2_000_000
	maxPathBytes = 512 << 20
)

// heavy says whether a commit has too many files for git on the host, or files that git cannot list.
func heavy(ctx context.Context, git host, commit string) (bool, error) {
	c := git.command(ctx, "ls-tree", "-r", "-t", "-z", "--name-only", "--full-tree", commit)
	c.Stdout = &tally{}
	err := runMortal(c)
	if err != nil && ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return err != nil, nil
}

// tally counts names that end with a NUL, and fails when there are too many.
type tally struct{ names, bytes int }

var errHeavy = errors.New("too many files")

func (t *tally) Write(p []byte) (int, error) {
	t.names += bytes.Count(p, []byte{0})
	t.bytes += len(p)
	if t.names > maxPaths || t.bytes > maxPathBytes {
		return 0, errHeavy
	}
	return len(p), nil
}

// maxHeavy bounds how many commits that are too heavy are remembered.
const maxHeavy = 1000

// heavy is the same for a commit of the sandbox's, and remembers the answer.
func (s *session) heavy(ctx context.Context, commit string) (bool, error) {
	if s.tooHeavy[commit] {
		return true, nil
	}
	is, err := heavy(ctx, s.Bridge.refs(), commit)
	if is {
		if s.tooHeavy == nil || len(s.tooHeavy) == maxHeavy {
			s.tooHeavy = map[string]bool{}
		}
		s.tooHeavy[commit] = true
	}
	return is, err
}

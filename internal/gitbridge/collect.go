package gitbridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/gitbridge/uploadpack"
)

// errUnusual is about repositories of which only git fetch knows what to do.
var errUnusual = errors.New("only git fetch can do this")

// maxHaves bounds how many commits git inside is told that we have.
const maxHaves = 500

// maxInMemory is how much of a pack is held in memory, to see whether it is small.
const maxInMemory = 4 << 20

// collect learns where branches are on both sides, and brings the objects over that are
// missing outside. No ref has moved then, but orders are noted for those that say where
// branches are inside.
func (s *session) collect(ctx context.Context, c *crew) error {
	read := make(chan error, 1)
	go func() { read <- s.read(ctx) }()
	heads, err := c.heads(ctx)
	if err = errors.Join(err, <-read); err != nil {
		return err
	}
	if r, err := c.config(); err != nil {
		return err
	} else if r.partial() || isFile(filepath.Join(s.Common, "shallow")) {
		return errUnusual
	}
	fresh, ours := s.fresh(heads)
	if len(fresh) == 0 {
		return nil
	}
	if s.refused.has(fresh) {
		return errLarge
	}
	err = s.take(ctx, c, fresh, ours)
	// Git on the host would say of it that it ends too early.
	if err != nil && c.inside.much.Load() {
		s.refused, err = refusedTips(fresh), errLarge
	}
	return err
}

// fresh notes orders for the refs that say where branches are inside. It returns the commits
// among them that no ref of the sandbox's outside is at, and those that one is at.
func (s *session) fresh(heads []uploadpack.Ref) (fresh []string, ours map[string]bool) {
	ours = map[string]bool{}
	for _, t := range s.refs {
		ours[t.id] = true
	}
	there, seen := map[string]bool{}, map[string]bool{}
	for _, r := range heads {
		ref := s.incoming() + strings.TrimPrefix(r.Name, "refs/heads/")
		there[ref] = true
		if s.set(ref, r.ID); !ours[r.ID] && !seen[r.ID] {
			fresh = append(fresh, r.ID)
		}
		seen[r.ID] = true
	}
	for ref := range s.refs {
		if strings.HasPrefix(ref, s.incoming()) && !there[ref] {
			s.set(ref, "")
		}
	}
	delete(ours, "")
	return fresh, ours
}

// heads are the branches inside.
func (c *crew) heads(ctx context.Context) ([]uploadpack.Ref, error) {
	select {
	case <-c.inside.open:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c.inside.err != nil {
		return nil, c.inside.err
	}
	return c.inside.Refs("refs/heads/")
}

// take brings commits over that are inside, with all that they lead to: git checks every
// object of the pack, and that nothing is missing, before one of them is among the host's.
func (s *session) take(ctx context.Context, c *crew, fresh []string, ours map[string]bool) error {
	var missing, haves []string
	said, err := c.known.end(lines(fresh))
	if err != nil {
		return err
	}
	for line := range strings.Lines(said) {
		if id, ok := strings.CutSuffix(strings.TrimSpace(line), " missing"); ok {
			missing = append(missing, id)
		} else {
			haves = append(haves, strings.TrimSpace(line)) // the sandbox has told us itself
		}
	}
	some := len(haves) > 0
	for id := range ours {
		haves = append(haves, id)
	}
	if len(missing) > 0 {
		pack, err := c.inside.Fetch(missing, haves[:min(len(haves), maxHaves)])
		if err == nil {
			err = s.unpack(ctx, c, pack)
		}
		if err != nil {
			return fmt.Errorf("fetch from the sandbox: %w", err)
		}
	}
	if _, err := c.linked.end(lines(fresh)); err != nil {
		if some { // one of which was there is not whole
			return errUnusual
		}
		return fmt.Errorf("fetch from the sandbox: %w", err)
	}
	return moveObjects(c.aside, s.Objects[0])
}

func lines(words []string) io.Reader { return strings.NewReader(strings.Join(words, "\n") + "\n") }

// unpack has git check a pack and put its objects aside: each by itself if they are few, as
// git does it, else as the pack that they are.
func (s *session) unpack(ctx context.Context, c *crew, pack io.Reader) error {
	var held bytes.Buffer
	if _, err := io.Copy(&held, io.LimitReader(pack, maxInMemory)); err != nil {
		return err
	}
	if held.Len() < maxInMemory {
		small, err := s.isSmall(bytes.NewReader(held.Bytes()))
		if err != nil {
			return err
		}
		if small {
			_, err := c.unpack.end(&held)
			return err
		}
	}
	h := s.Bridge.refs()
	h.objects = c.aside
	h.env = []string{"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + quoteObjects(s.Objects[0])}
	// Who has made the pack can make one that takes for ever.
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w, err := h.wait(ctx, "index-pack", "--stdin", "--fix-thin", "--strict")
	if err != nil {
		return err
	}
	_, err = w.end(io.MultiReader(&held, pack))
	return err
}

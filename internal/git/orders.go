package git

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// why is the reflog message of a ref that moves because it moved inside.
func (b *Bridge) why() string { return "coffer: from sandbox " + b.Name }

// set notes that a ref is to move; "" deletes it.
func (s *session) set(ref, id string) {
	if id == "" {
		delete(s.refs, ref)
		return
	}
	now := s.refs[ref]
	now.id = id
	s.refs[ref] = now
}

// write moves the refs to where they were set, if they are still where they were read: all, or
// none. Deletions come first, because a deleted ref may be in the way of a new one.
func (s *session) write(ctx context.Context) error {
	var gone, come strings.Builder
	for _, ref := range slices.Sorted(maps.Keys(s.was)) {
		if s.refs[ref].id == "" {
			fmt.Fprintf(&gone, "delete %s %s\n", ref, s.was[ref].id)
		}
	}
	for _, ref := range slices.Sorted(maps.Keys(s.refs)) {
		switch was, is := s.was[ref].id, s.refs[ref].id; {
		case was == "":
			fmt.Fprintf(&come, "create %s %s\n", ref, is)
		case was != is:
			fmt.Fprintf(&come, "update %s %s %s\n", ref, is, was)
		}
	}
	for _, lines := range []string{gone.String(), come.String()} {
		if lines == "" {
			continue
		}
		if err := s.moveRefs(ctx, s.why(), lines); err != nil {
			return err
		}
	}
	s.was = maps.Clone(s.refs)
	return nil
}

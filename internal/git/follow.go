package git

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/rootfs"
)

// follow moves the refs, and makes the host's HEAD and index of the worktree say what is
// checked out inside, so that git status outside compares the files to the right commit. It
// returns the ref that is then checked out.
func (s *session) follow(ctx context.Context) (head string, err error) {
	current, err := s.tree().text(ctx, "symbolic-ref", "-q", "HEAD")
	if err != nil && code(err) != 1 {
		return "", err
	}
	if _, ours := s.inside(current); !ours {
		return current, s.write(ctx) // the user has checked out something else there
	}
	head = current
	if s.head != "" {
		if want, ok := s.now[s.public(s.head)]; ok && (want.tree == "" || want.tree == s.Tree) {
			head = s.public(s.head)
		}
	}
	was, is := s.now[s.own()+"index"].ID, s.now[head].ID
	if was == "" {
		was = s.Base
	}
	if is == "" || was == is && head == current {
		return current, s.write(ctx)
	}
	if err := s.write(ctx); err != nil {
		return current, err
	}
	if was != is && !s.indexFollows(ctx, is) {
		if err := moveIndex(ctx, s.tree(), filepath.Join(s.Admin, "index"), was, is); err != nil {
			return current, fmt.Errorf("update the index of the worktree: %w", err)
		}
	}
	if head != current {
		if _, err := s.tree().run(ctx, "", "symbolic-ref", "-m", "coffer: checked out inside", "HEAD", head); err != nil {
			return current, err
		}
	}
	return head, s.ownRefs().move(ctx, s.why(), fmt.Sprintf("update %sindex %s\n", s.own(), is))
}

// indexFollows reports whether the index is right already, because the user's own git in the
// worktree went to a commit and wrote it. To lock it would be in the way of the user's next
// command. Submodules in it have to be marked first.
func (s *session) indexFollows(ctx context.Context, commit string) bool {
	links, err := rootfs.Gitlinks(filepath.Join(s.Admin, "index"))
	if !s.theirs || err != nil || len(links) > 0 {
		return false
	}
	log, err := s.tree().run(ctx, "", "log", "-g", "--format=%H", "--max-count=100", "HEAD", "--")
	return err == nil && strings.Contains(log, commit)
}

// moveIndex makes an index of the host's that of another commit. What the user has staged
// stays staged, unless it is in the way. It works on a copy, under git's own lock: nobody
// sees an index with a submodule that is not marked.
func moveIndex(ctx context.Context, h host, index, was, is string) error {
	unlock, err := lockIndex(ctx, index)
	if err != nil {
		return err
	}
	defer unlock()
	draft := index + ".coffer"
	defer os.Remove(draft)
	if err := copyIn(filepath.Dir(index), filepath.Base(index), draft); err != nil {
		return err
	}
	if err := readTrees(ctx, h, draft, was, is); err != nil {
		return err
	}
	h.index, h.mind = draft, true
	// It exits with 1 if a file is not as the index says.
	if _, err := h.run(ctx, "", "update-index", "-q", "--refresh"); err != nil && code(err) != 1 {
		return err
	}
	return os.Rename(draft, index)
}

// readTrees makes a draft of an index that of another commit.
func readTrees(ctx context.Context, h host, draft, was, is string) error {
	h.index = draft
	if _, err := h.run(ctx, "", "read-tree", "-m", "-i", was, is); err != nil {
		if _, err := h.run(ctx, "", "read-tree", "-m", "-i", is); err != nil {
			return err
		}
	}
	links, err := rootfs.Gitlinks(draft)
	if err != nil {
		return err
	}
	return mark(ctx, h, links)
}

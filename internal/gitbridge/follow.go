package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cofferhq/coffer/internal/rootfs"
)

// follow makes the host's HEAD and index of the worktree say what is checked out inside,
// so that git status outside tells what the files are compared to. It returns the branch
// that is then checked out.
func (s *session) follow(ctx context.Context) (head string, err error) {
	current, err := s.tree().text(ctx, "symbolic-ref", "-q", "HEAD")
	if err != nil && code(err) != 1 {
		return "", err
	}
	if _, ours := s.inside(current); !ours {
		return current, nil // the user has checked out something else there
	}
	head = current
	if s.head != "" {
		if want, ok := s.refs[s.public(s.head)]; ok && (want.tree == "" || want.tree == s.Tree) {
			head = s.public(s.head)
		}
	}
	was, is := s.refs[s.own()+"index"].id, s.refs[head].id
	if is == "" {
		return current, nil
	}
	if was == "" {
		was = s.Base
	}
	if was == is && head == current {
		return current, nil
	}
	if was != is {
		if err := s.moveIndex(ctx, filepath.Join(s.Admin, "index"), was, is); err != nil {
			return current, fmt.Errorf("update the index of the worktree: %w", err)
		}
	}
	if head != current {
		if _, err := s.tree().run(ctx, "", "symbolic-ref", "-m", "coffer: checked out inside", "HEAD", head); err != nil {
			return current, err
		}
	}
	_, err = s.Bridge.refs().run(ctx, "", "update-ref", s.own()+"index", is)
	return head, err
}

// moveIndex makes an index of the host's that of another commit, without looking at a file but
// to see whether it is as the index says. What the user has staged stays staged, unless it
// is in the way. It is done in a copy, under git's own lock: nobody sees an index with a
// submodule in it that is not marked.
func (b *Bridge) moveIndex(ctx context.Context, index, was, is string) error {
	unlock, err := lockIndex(index)
	if err != nil {
		return err
	}
	defer unlock()
	draft := index + ".coffer"
	defer os.Remove(draft)
	if err := copyFile(index, draft); err != nil {
		return err
	}
	h := b.tree()
	h.index = draft
	if _, err := h.run(ctx, "", "read-tree", "-m", "-i", was, is); err != nil {
		if _, err := h.run(ctx, "", "read-tree", "-m", "-i", is); err != nil {
			return err
		}
	}
	links, err := rootfs.Gitlinks(draft)
	if err == nil {
		err = mark(ctx, h, links)
	}
	if err != nil {
		return err
	}
	h.mind = true
	// It fails when a file is not as the index says, which is no failure.
	if _, err := h.run(ctx, "", "update-index", "-q", "--refresh"); err != nil && code(err) != 1 {
		return err
	}
	return os.Rename(draft, index)
}

// ours is what a lock of ours says.
const ours = "coffer\n"

// lockIndex takes the lock that git takes to write an index.
func lockIndex(index string) (unlock func(), err error) {
	lock := index + ".lock"
	for range 100 {
		var f *os.File
		if f, err = os.OpenFile(lock, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
			_, _ = f.WriteString(ours)
			f.Close()
			return func() { os.Remove(lock) }, nil
		}
		// There is one who brings commits over, and that is us: another one was killed.
		if words, err := firstLine(lock); err == nil && words+"\n" == ours {
			os.Remove(lock)
			continue
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		time.Sleep(20 * time.Millisecond) // git on the host holds it, which does not take long
	}
	return nil, err
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
	unlock, err := lockIndex(ctx, index)
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

// patienceIndex is how long git on the host may hold the lock, which it does not for long.
const patienceIndex = 2 * time.Second

// lockIndex takes the lock that git takes to write an index.
func lockIndex(ctx context.Context, index string) (unlock func(), err error) {
	lock := index + ".lock"
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for late := time.Now().Add(patienceIndex); ; {
		if err = putLock(lock); err == nil {
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
		if time.Now().After(late) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-again.C:
		}
	}
}

// putLock makes a lock that says whose it is from its first moment: who is killed must not
// leave one that looks like git's.
func putLock(lock string) error {
	mine := strings.TrimSuffix(lock, ".lock") + ".coffer.lock"
	defer os.Remove(mine)
	if err := os.WriteFile(mine, []byte(ours), 0o600); err != nil {
		return err
	}
	return os.Link(mine, lock)
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

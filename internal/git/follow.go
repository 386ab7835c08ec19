package git

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

// follow moves the refs, and makes the host's HEAD and index of the worktree say what is
// checked out inside, so that git status outside tells what the files are compared to. It
// returns the branch that is then checked out.
func (s *session) follow(ctx context.Context) (head string, err error) {
	current, err := s.outsideHead(ctx)
	if err != nil {
		return "", err
	}
	if _, ours := s.inside(current); !ours {
		return current, s.write(ctx) // the user has checked out something else there
	}
	head = current
	if s.head != "" {
		if want, ok := s.refs[s.public(s.head)]; ok && (want.tree == "" || want.tree == s.Tree) {
			head = s.public(s.head)
		}
	}
	was, is := s.refs[s.own()+"index"].id, s.refs[head].id
	if was == "" {
		was = s.Base
	}
	if is == "" || was == is && head == current {
		return current, s.write(ctx)
	}
	if err := s.write(ctx); err != nil {
		return current, err
	}
	if was != is && !s.indexFollows(is) {
		if err := s.moveIndex(ctx, filepath.Join(s.Admin, "index"), was, is); err != nil {
			return current, fmt.Errorf("update the index of the worktree: %w", err)
		}
	}
	if head != current {
		if _, err := s.tree().run(ctx, "", "symbolic-ref", "-m", "coffer: checked out inside", "HEAD", head); err != nil {
			return current, err
		}
	}
	return head, s.moveRefs(ctx, s.why(), fmt.Sprintf("update %sindex %s\n", s.own(), is))
}

// indexFollows says whether the index is that of a commit already, because the user's own git in the
// worktree went there and wrote it. To lock it would be in the way of his next one. Submodules in it
// have to be marked first.
func (s *session) indexFollows(is string) bool {
	if !s.theirs || !logged(filepath.Join(s.Admin, "logs", "HEAD"), is) {
		return false
	}
	links, err := rootfs.Gitlinks(filepath.Join(s.Admin, "index"))
	return err == nil && len(links) == 0
}

// logged says whether a log of the host's has a commit among its last ones.
func logged(log, id string) bool {
	f, err := os.Open(log)
	if err != nil {
		return false
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return false
	}
	tail := make([]byte, min(size, 16<<10))
	n, _ := f.ReadAt(tail, size-int64(len(tail)))
	for line := range strings.Lines(string(tail[:n])) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == id {
			return true
		}
	}
	return false
}

// outsideHead is the ref that is checked out in the worktree, as the user sees it.
func (s *session) outsideHead(ctx context.Context) (string, error) {
	line, err := firstLine(filepath.Join(s.Admin, "HEAD"))
	if ref, ok := strings.CutPrefix(line, "ref: refs/heads/"); err == nil && (isID(line) || ok && plainRef(ref) && ref != ".invalid") {
		return strings.TrimPrefix(line, "ref: "), nil
	}
	current, err := s.tree().text(ctx, "symbolic-ref", "-q", "HEAD")
	if code(err) == 1 {
		err = nil // there is none
	}
	return current, err
}

// moveIndex makes an index of the host's that of another commit, without looking at a file
// but to see whether it is as the index says. What the user has staged stays staged, unless
// it is in the way. It is done in a copy, under git's own lock: nobody sees an index with a
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
	if err := b.readTrees(ctx, draft, was, is); err != nil {
		return err
	}
	h := b.tree()
	all, err := h.settings(ctx)
	if err != nil {
		return err
	}
	h.index, h.env = draft, filtersOff(all)
	// It fails when a file is not as the index says, which is no failure.
	if _, err := h.run(ctx, "", "update-index", "-q", "--refresh"); err != nil && code(err) != 1 {
		return err
	}
	return os.Rename(draft, index)
}

// readTrees makes a draft of an index that of another commit.
func (b *Bridge) readTrees(ctx context.Context, draft, was, is string) error {
	h := b.tree()
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

// ours is what a lock of ours says.
const ours = "coffer\n"

// indexTries is how often it is looked whether git on the host still holds the lock, which it does
// not for long: for two seconds, and for longer on a machine that stands still meanwhile.
const indexTries = 100

// lockIndex takes the lock that git takes to write an index.
func lockIndex(ctx context.Context, index string) (unlock func(), err error) {
	lock := index + ".lock"
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for try := 1; ; try++ {
		if err = putLock(lock); err == nil {
			return func() { os.Remove(lock) }, nil
		}
		// There is one who brings commits over, and that is us: another one was killed.
		if words, err := firstLine(lock); err == nil && words+"\n" == ours {
			os.Remove(lock)
			continue
		}
		if !errors.Is(err, fs.ErrExist) || try == indexTries {
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

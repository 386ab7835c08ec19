package checkpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// A Workspace is what checkpoints are taken of.
type Workspace struct {
	Top    *Dir
	Ignore *Ignore
	// Hidden, if set, says which files the sandbox cannot see. They are neither kept nor
	// restored: only the user can have changed them.
	Hidden func(path string) bool
	// Writer is the id on the host of who is to own what is written, if that is not the
	// caller: in a view that only the sandbox's own ids exist in, nobody else can.
	Writer int
}

func (w *Workspace) hides(path string) bool { return w.Hidden != nil && w.Hidden(path) }

// Restore makes the files of a workspace what a manifest says. Every file is the old one or the new one
// at any time. What is in neither manifest, or hidden, is not touched. It goes on after a failure; the
// failures are returned by path.
func (s *Store) Restore(ctx context.Context, w *Workspace, is, want Manifest, from Source) (failed map[string]error, err error) {
	failed = map[string]error{}
	all := Compare(is, want)
	// First what goes: a file may be where a directory has to be.
	for _, d := range all {
		if d.New.Mode != 0 || d.Old.Mode == Gitlink || w.hides(d.Path) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return failed, err
		}
		if err := w.remove(d.Path); err != nil {
			failed[d.Path] = err
		}
	}
	for _, d := range all {
		if d.New.Mode == 0 || d.New.Mode == Gitlink || d.New.ID == notKept || w.hides(d.Path) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return failed, err
		}
		if err := s.put(w, d.Path, d.New, from); err != nil {
			failed[d.Path] = err
		}
	}
	return failed, nil
}

// remove removes a file, and directories above it that are empty then.
func (w *Workspace) remove(rel string) error {
	d, name, err := w.Top.Find(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = unix.Unlinkat(d.FD(), name, 0)
	d.Close()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := path.Dir(rel); dir != "."; dir = path.Dir(dir) {
		d, name, err := w.Top.Find(dir)
		if err != nil {
			break
		}
		err = unix.Unlinkat(d.FD(), name, unix.AT_REMOVEDIR)
		d.Close()
		if err != nil {
			break
		}
	}
	return nil
}

// put writes a file beside its place and renames it. No link is followed, so it stays in the workspace
// whatever a program inside does meanwhile.
func (s *Store) put(w *Workspace, rel string, item Item, from Source) error {
	content, err := s.open(item.ID, from)
	if err != nil {
		return err
	}
	defer content.Close()
	return as(w.Writer, func() error { return w.put(rel, item.Mode, content) })
}

func (w *Workspace) put(rel string, mode uint32, content io.Reader) error {
	if err := w.parents(rel); err != nil {
		return err
	}
	d, name, err := w.Top.Find(rel)
	if err != nil {
		return err
	}
	defer d.Close()
	draft := ".coffer-" + rand.Text()[:16]
	if mode == Symlink {
		var target []byte
		if target, err = io.ReadAll(io.LimitReader(content, unix.PathMax)); err == nil {
			err = unix.Symlinkat(string(target), d.FD(), draft)
		}
	} else {
		err = write(d.FD(), draft, name, mode, content)
	}
	if err == nil {
		err = unix.Renameat(d.FD(), draft, d.FD(), name)
	}
	if err != nil {
		_ = unix.Unlinkat(d.FD(), draft, 0)
	}
	if err == unix.EISDIR || err == unix.ENOTEMPTY || err == unix.EEXIST {
		err = fmt.Errorf("a directory is in its place, with files that git ignores: %w", err)
	}
	return err
}

// write writes a file that takes the place of another one, with the permissions of that: git does not
// know them, and it may be the user's own.
func write(dir int, name, other string, mode uint32, content io.Reader) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o666|mode&0o111)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	var old unix.Stat_t
	if unix.Fstatat(dir, other, &old, unix.AT_SYMLINK_NOFOLLOW) == nil && old.Mode&unix.S_IFMT == unix.S_IFREG {
		if os.Geteuid() == 0 {
			_ = unix.Fchown(fd, int(old.Uid), int(old.Gid)) // root works on others' files too
		}
		may := uint32(old.Mode) & 0o666
		if mode&0o111 != 0 {
			may |= may >> 2 & 0o111
		}
		err = unix.Fchmod(fd, may)
	}
	if err == nil {
		_, err = io.Copy(f, content)
	}
	return errors.Join(err, f.Close())
}

func (w *Workspace) parents(rel string) error {
	parts := strings.Split(path.Dir(rel), "/")
	for i := range parts {
		dir := strings.Join(parts[:i+1], "/")
		if dir == "." {
			return nil
		}
		d, name, err := w.Top.Find(dir)
		if err != nil {
			return err
		}
		err = unix.Mkdirat(d.FD(), name, 0o777)
		d.Close()
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

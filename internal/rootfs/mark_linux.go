package rootfs

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// What a sandbox has removed of a copy-on-write view is marked in the view's layer. When names are
// freed such marks are made and taken back below the view, of which the kernel does not hear.

// has says whether there is anything in a layer in the place of a name.
func (l *Layers) has(s *spot) (bool, error) {
	fd, err := l.upper(s.layer, s.rel)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	if err == nil {
		unix.Close(fd)
	}
	return true, err
}

// mark notes in a layer that the sandbox has removed something.
func (l *Layers) mark(s *spot) error {
	// The directory has to be in the layer: a change of none brings it there.
	if err := unix.Fchownat(s.dir, "", -1, -1, unix.AT_EMPTY_PATH); err != nil {
		return err
	}
	up, err := l.upper(s.layer, filepath.Dir(s.rel))
	if err != nil {
		return err
	}
	defer unix.Close(up)
	return unix.Mknodat(up, filepath.Base(s.rel), unix.S_IFCHR, 0)
}

// unmark takes such a mark back. A program inside may have made something in its place
// meanwhile: that is looked at where no program is, and put back.
func (l *Layers) unmark(s *spot) error {
	up, err := l.upper(s.layer, filepath.Dir(s.rel))
	if err != nil {
		return err
	}
	defer unix.Close(up)
	// The kernel empties this directory at every start.
	aside, err := l.root.open(filepath.Join("/", s.layer, "work/work"))
	if err != nil {
		return err
	}
	defer unix.Close(aside)
	const name = "freed"
	if err := unix.Renameat2(up, s.name, aside, name, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(aside, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 {
		return unix.Unlinkat(aside, name, 0)
	}
	return unix.Renameat2(aside, name, up, s.name, unix.RENAME_NOREPLACE)
}

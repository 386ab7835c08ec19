package changes

import (
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// putDir makes a directory, or opens one up for the files that are to come;
// finishDir gives it its own mode at the end.
func (a *applier) putDir(e *entry, dir *os.File) error {
	name := path.Base(e.Path)
	if err := a.unchanged(e, dir); err != nil {
		return err
	}
	if e.low.isDir() {
		return chmodDir(dir, name, dirMode(e.up, e.low)|0o700)
	}
	temp := tempName(e.Path)
	if e.low == nil {
		err := unix.Mkdirat(int(dir.Fd()), name, 0o700)
		if err == unix.EEXIST {
			err = fmt.Errorf("workspace: %w", ErrChanged)
		}
		if err != nil {
			return err
		}
		a.done(e, dir)
		return nil
	}
	if err := removeTemp(dir, temp); err != nil {
		return err
	}
	if err := unix.Mkdirat(int(dir.Fd()), temp, 0o700); err != nil {
		return err
	}
	if err := swap(dir, temp, name, 0); err != nil {
		return errors.Join(err, removeTemp(dir, temp))
	}
	a.done(e, dir)
	return nil
}

// finishDir sets the final mode of a directory that is new or changed its mode.
func (a *applier) finishDir(e *entry, dir *os.File) error {
	if err := chmodDir(dir, path.Base(e.Path), dirMode(e.up, e.low)); err != nil {
		return err
	}
	if e.low.isDir() {
		a.done(e, dir)
	}
	return nil
}

// replaceDir puts a file or link in the place of a directory whose content has
// been deleted already.
func (a *applier) replaceDir(e *entry, dir *os.File) error {
	if err := a.unchanged(e, dir); err != nil {
		return err
	}
	s, err := a.stage(e, dir)
	if err != nil {
		return err
	}
	if s.file != nil {
		err = errors.Join(s.file.Sync(), s.file.Close())
		s.file = nil
	}
	if err == nil {
		err = swap(dir, s.temp, path.Base(e.Path), unix.AT_REMOVEDIR)
	}
	if err != nil {
		s.discard()
		return err
	}
	a.done(e, dir)
	return nil
}

// swap puts temp at name and removes what was there, a directory if flags is
// AT_REMOVEDIR. If that cannot be removed (the user just put a file into it) it
// is put back. Where the file system cannot exchange two names there is a moment
// with nothing at name.
func swap(dir *os.File, temp, name string, flags int) error {
	fd := int(dir.Fd())
	err := unix.Renameat2(fd, temp, fd, name, unix.RENAME_EXCHANGE)
	if err == unix.EINVAL || err == unix.ENOSYS {
		if err := unix.Unlinkat(fd, name, flags); err != nil {
			return err
		}
		return unix.Renameat(fd, temp, fd, name)
	}
	if err != nil {
		return err
	}
	if err := unix.Unlinkat(fd, temp, flags); err != nil {
		back := unix.Renameat2(fd, temp, fd, name, unix.RENAME_EXCHANGE)
		return fmt.Errorf("workspace: %w: %w", ErrChanged, errors.Join(err, back))
	}
	return nil
}

// chmodDir sets the mode of a directory by name, without following a link.
func chmodDir(dir *os.File, name string, mode uint32) error {
	f, err := openAt(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return gone(err)
	}
	defer f.Close()
	return chmodFile(f, mode)
}

package rootfs

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// rebuild covers the directory of a file by one that has the same entries, each mounted
// by itself, but an empty file in place of that one.
func (a *assembly) rebuild(file string) error {
	dir := filepath.Dir(file)
	at, err := a.root.open(dir)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	stage := Own + "/rebuilt" + dir
	for _, e := range entries {
		if err := a.bringAlong(dir, stage, e.Name(), e.Name() == filepath.Base(file)); err != nil {
			return err
		}
	}
	from, err := a.root.open(stage)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	return cover(from, at, unix.MOUNT_ATTR_RDONLY|safe)
}

// bringAlong makes an entry of a directory one of another, too. What may not be
// looked at stays away.
func (a *assembly) bringAlong(dir, stage, name string, empty bool) error {
	path, dest := filepath.Join(dir, name), filepath.Join(stage, name)
	if to, err := os.Readlink(path); err == nil && !empty {
		return a.symlink(&Step{Target: dest, Data: to})
	}
	isFolder, tree := false, -1
	if !empty {
		fd, err := a.root.open(path)
		if errors.Is(err, unix.EACCES) {
			return nil
		}
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if isFolder, err = isDir(fd); err != nil {
			return err
		}
		if tree, err = clone(fd); err != nil {
			return err
		}
		defer unix.Close(tree)
	}
	at, err := a.root.make(dest, isFolder)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if empty {
		return nil
	}
	return attach(tree, at)
}

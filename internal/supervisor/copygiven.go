package supervisor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// What is copied into a sandbox at each of its starts is bounded: one file, a directory
// with all that is in it, and how many things those are.
const (
	maxGiven     = 4 << 20
	maxGivenTree = 32 << 20
	maxGivenMany = 4000
)

// copyGiven copies a file or a directory of the user's. Where it leads was settled when
// the user agreed to it; a link that is there now is not followed.
func copyGiven(from, to string) error {
	f, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	// What a program has open stays what it was.
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	switch {
	case info.Mode().IsRegular():
		_, err = copyFile(f, to, info, maxGiven)
		return err
	case info.IsDir():
		return copyTree(f, to)
	}
	return errors.New("it is neither a file nor a directory any more")
}

// copyFile copies a file that is open, of a size that there is room for.
func copyFile(f *os.File, to string, info fs.FileInfo, room int64) (n int64, err error) {
	data, err := io.ReadAll(io.LimitReader(f, min(maxGiven, room)+1))
	switch n = int64(len(data)); {
	case err != nil:
		return n, err
	case n > maxGiven:
		return n, fmt.Errorf("%s is larger than %d MB", info.Name(), maxGiven>>20)
	case n > room:
		return n, fmt.Errorf("all that is in it is larger than %d MB", maxGivenTree>>20)
	}
	// It may be a program.
	return n, os.WriteFile(to, data, 0o600|info.Mode().Perm()&0o100)
}

// copyTree copies a directory that is open. Links in it stay links: inside, they lead to
// what is inside. What is no file is left out.
func copyTree(dir *os.File, to string) error {
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	if err != nil {
		return err
	}
	defer root.Close()
	room, many := int64(maxGivenTree), maxGivenMany
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if many--; many < 0 {
			return fmt.Errorf("there are more than %d files in it", maxGivenMany)
		}
		at := filepath.Join(to, filepath.FromSlash(name))
		switch {
		case d.IsDir():
			return os.Mkdir(at, 0o700)
		case d.Type() == fs.ModeSymlink:
			link, err := root.Readlink(name)
			if err == nil {
				err = os.Symlink(link, at)
			}
			return err
		case !d.Type().IsRegular():
			return nil
		}
		n, err := copyWithin(root, name, at, room)
		room -= n
		return err
	})
}

func copyWithin(root *os.Root, name, to string, room int64) (int64, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, err
	}
	return copyFile(f, to, info, room)
}

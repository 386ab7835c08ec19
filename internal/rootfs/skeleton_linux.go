package rootfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// A skeleton is a copy of the directories of a system directory, and of those files that are changed
// in place or linked to, for root of the sandbox to own. There are thousands, and somebody waits for
// them: so they are made by several goroutines.
type skeleton struct {
	top   string // the system directory
	group *errgroup.Group
	// counting is the device whose directories have two links, and one for each directory in
	// them; 0 if that is not known.
	counting uint64
}

// opaque marks a directory of a layer that is not merged with those below it.
const opaque = "user.overlay.opaque"

// deepest is how far down the directories of /opt are copied. Programs lie there in one piece,
// with thousands of directories.
const deepest = 5

// bare says whether the skeleton of a system directory has no files.
func bare(dir string) bool { return dir != "/etc" && !strings.HasPrefix(dir, "/var/") }

// build makes the skeleton of a system directory in another one, which is empty, or has what
// there is from a time when that was not finished.
func build(top string, to *os.Root) error {
	s := &skeleton{top: top, group: new(errgroup.Group), counting: counting(top)}
	s.group.SetLimit(runtime.GOMAXPROCS(0))
	err := s.dir(top, to, 0)
	return errors.Join(err, s.group.Wait())
}

// counting is the device of a directory, if its file system is one that counts links.
func counting(dir string) uint64 {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if unix.Stat(dir, &st) != nil || unix.Statfs(dir, &fs) != nil || fs.Type != unix.EXT4_SUPER_MAGIC && fs.Type != unix.XFS_SUPER_MAGIC {
		return 0
	}
	return st.Dev
}

// empty says that there is nothing to copy in a directory that everybody may read: most of /usr is
// such directories, and reading them would take seconds.
func (s *skeleton) empty(info fs.FileInfo) bool {
	st := info.Sys().(*syscall.Stat_t)
	return bare(s.top) && st.Nlink == 2 && st.Dev == s.counting && st.Mode&0o005 == 0o005
}

// dir copies what is in a directory that is so far down.
func (s *skeleton) dir(from string, to *os.Root, depth int) error {
	entries, err := os.ReadDir(from)
	switch {
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
		return err // that says nothing about it, and it would be seen without what is in it
	case err != nil && len(entries) == 0:
		// It may not be read. Its copy must not be merged with what it hides.
		return mark(to)
	}
	if s.top == "/opt" && depth == deepest {
		return nil
	}
	for _, e := range entries {
		switch {
		case e.IsDir():
			err = s.below(filepath.Join(from, e.Name()), e, to, depth+1)
		case bare(s.top):
			continue
		case e.Type().IsRegular():
			err = s.file(filepath.Join(from, e.Name()), e, to, depth+1)
		case e.Type()&fs.ModeSymlink != 0 && s.top == "/etc":
			err = copyLink(filepath.Join(from, e.Name()), to)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
	}
	return nil
}

// mark makes a directory opaque. A file system without attributes cannot.
func mark(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	_ = unix.Fsetxattr(int(f.Fd()), opaque, []byte("y"), 0)
	return nil
}

// below copies a directory of a directory.
func (s *skeleton) below(from string, e fs.DirEntry, to *os.Root, depth int) error {
	info, err := e.Info()
	if err != nil {
		return nil // it is gone
	}
	if err := to.Mkdir(e.Name(), info.Mode().Perm()|0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if s.empty(info) {
		return nil
	}
	made, err := to.OpenRoot(e.Name())
	if err != nil {
		return err
	}
	work := func() error {
		defer made.Close()
		return s.dir(from, made, depth)
	}
	if s.group.TryGo(work) {
		return nil
	}
	return work()
}

// file copies a file, if it is one of those that are changed in place or linked to. One that may
// not be read becomes an empty one.
func (s *skeleton) file(path string, e fs.DirEntry, to *os.Root, depth int) error {
	info, err := e.Info()
	if err != nil {
		return nil
	}
	private := info.Mode()&0o004 == 0
	if s.top != "/etc" && !private && depth > 1 && !strings.HasPrefix(e.Name(), "lock") {
		return nil
	}
	if s.top == "/var/cache/apt" && strings.HasSuffix(e.Name(), ".bin") {
		return nil // apt's index of a hundred megabytes, which it replaces
	}
	out, err := to.OpenFile(e.Name(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	in, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err == nil {
		defer in.Close()
		_, err = io.Copy(out, in)
	} else if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, to.Chtimes(e.Name(), info.ModTime(), info.ModTime()))
}

func copyLink(path string, to *os.Root) error {
	target, err := os.Readlink(path)
	if err != nil {
		return nil // it is gone
	}
	if err := to.Symlink(target, filepath.Base(path)); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

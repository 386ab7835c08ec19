package safepath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A TreeError says what RemoveTree could not delete: the first path, and why.
// One that matches fs.ErrPermission is worth another try in a user namespace that
// maps the uids of the sandbox.
type TreeError struct {
	Path string
	Err  error
}

func (e *TreeError) Error() string {
	// Quoted, for the names were chosen by a stranger and go to a terminal.
	return fmt.Sprintf("cannot remove %q: %v", e.Path, e.Err)
}

func (e *TreeError) Unwrap() error { return e.Err }

var errMountPoint = errors.New("something is mounted there")

const (
	// maxDepth bounds the recursion, and the directories that are open at once.
	maxDepth = 64
	// maxFailures ends a hopeless attempt.
	maxFailures = 1000
)

// RemoveTree deletes a file or a directory with all that is in it, written by
// whomever. It follows no link, crosses no mount, opens directories whose mode forbids
// it (if we own them), and opens a bounded number of files however deep the tree
// is. It deletes what it can and returns a *TreeError for the first thing that it
// cannot. A path that does not exist is fine.
//
// os.RemoveAll does not do: it gives up on directories without permissions, such as
// overlayfs leaves behind, walks into mounts, and opens a file per level.
func RemoveTree(path string) error {
	path = filepath.Clean(path)
	parent, name := filepath.Split(path)
	if name == "" || name == "." || name == ".." {
		return &TreeError{path, fs.ErrInvalid}
	}
	if parent == "" {
		parent = "."
	}
	dir, err := OpenDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &TreeError{path, err}
	}
	defer dir.Close()
	return RemoveIn(dir, name)
}

// RemoveIn is [RemoveTree] for a name in an open directory.
func RemoveIn(dir *os.File, name string) error {
	r := remover{top: -1}
	r.remove(int(dir.Fd()), name, filepath.Join(dir.Name(), name), 0)
	if r.first != nil {
		return r.first
	}
	return nil
}

type remover struct {
	top      int // the tree's own directory, to which deep ones are moved
	moved    int // how many
	first    *TreeError
	failures int
}

// remove deletes a name in a directory, and reports whether it did.
func (r *remover) remove(dir int, name, path string, depth int) bool {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || err == unix.ENOENT {
		return true
	}
	fd, openErr := openClosed(dir, name)
	switch openErr {
	case nil:
	case unix.ENOENT:
		return true
	case unix.ENOTDIR, unix.ELOOP:
		return r.fail(path, err) // no directory, so the first answer is the reason
	case unix.EXDEV:
		return r.fail(path, errMountPoint)
	default:
		if unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) == nil {
			return true // somebody else's, closed to us, but empty
		}
		return r.fail(path, openErr)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if depth == 0 {
		r.top = fd
	}
	if depth == maxDepth {
		return r.lift(dir, name, path)
	}
	for {
		progress := r.empty(f, depth)
		err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		switch {
		case err == nil || err == unix.ENOENT:
			return true
		case r.failures >= maxFailures || !progress || err != unix.ENOTEMPTY && err != unix.EEXIST:
			return r.fail(path, err)
		}
	}
}

// empty deletes what is in a directory, and reports whether anything was.
func (r *remover) empty(f *os.File, depth int) (progress bool) {
	if _, err := f.Seek(0, 0); err != nil {
		return false
	}
	for r.failures < maxFailures {
		names, err := f.Readdirnames(1000)
		for _, name := range names {
			if r.remove(int(f.Fd()), name, f.Name()+"/"+name, depth+1) {
				progress = true
			}
		}
		if err != nil || len(names) == 0 {
			break
		}
	}
	return progress
}

// lift moves a directory that is too deep up to the tree's own, where it is found again.
func (r *remover) lift(dir int, name, path string) bool {
	for {
		r.moved++
		switch err := unix.Renameat(dir, name, r.top, fmt.Sprintf(".deep-%d", r.moved)); err {
		case nil:
			return true
		case unix.EEXIST, unix.ENOTEMPTY, unix.ENOTDIR: // the name is taken
		default:
			return r.fail(path, err)
		}
	}
}

// fail notes the first failure, and returns false.
func (r *remover) fail(path string, err error) bool {
	r.failures++
	if r.first == nil {
		r.first = &TreeError{path, err}
	}
	return false
}

// openClosed opens a directory to empty it, whatever its mode.
func openClosed(dir int, name string) (int, error) {
	fd, err := openDir(dir, name, unix.O_RDONLY)
	if err == unix.EACCES && chmodDir(dir, name) == nil {
		fd, err = openDir(dir, name, unix.O_RDONLY)
	}
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&0o700 != 0o700 {
		_ = unix.Fchmod(fd, 0o700) // if that fails, deleting does, and says so
	}
	return fd, nil
}

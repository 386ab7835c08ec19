package changes

import (
	"errors"
	"fmt"
	"os"
	"path"
	"time"

	"github.com/cofferhq/coffer/internal/safepath"
	"golang.org/x/sys/unix"
)

// maxPath is the longest path that a program can open by name (PATH_MAX less the NUL).
const maxPath = unix.PathMax - 1

// readFlags open a file to read it whatever it is: a FIFO must not block, a terminal must not
// become ours, a symlink must not be followed.
const readFlags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY

const (
	listFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW
	pathFlags = unix.O_PATH | unix.O_NOFOLLOW
)

// tree is a directory. Paths in it are resolved below it, through no symlink and no mount point.
type tree struct{ root *os.File }

// openTree opens the root of a tree. The path is Coffer's or the user's, so links in it are
// followed; the last component of the upper is never a link.
func openTree(what, path string, flags int) (*tree, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|flags, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s %s: %w", what, Quote(path), errors.Unwrap(err))
	}
	return &tree{f}, nil
}

func (t *tree) Close() error { return t.root.Close() }

// open opens rel ("" is the root). The error is ELOOP or ENOTDIR for a link on the way, EXDEV for
// a mount point.
func (t *tree) open(rel string, flags int) (*os.File, error) {
	return safepath.Open(t.root, rel, flags, safepath.NoLinks|safepath.NoMounts)
}

// parent opens the directory of rel to work in it.
func (t *tree) parent(rel string) (*os.File, error) {
	return t.open(path.Dir(rel), pathFlags|unix.O_DIRECTORY)
}

// stat describes rel, nil if there is nothing. That rel is a mount point is no error.
func (t *tree) stat(rel string) (*node, error) {
	f, err := safepath.Open(t.root, rel, pathFlags, safepath.NoLinks)
	if err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := statFile(f)
	return &n, err
}

// regular opens a regular file for reading; ErrChanged if it is none.
func (t *tree) regular(rel string) (*os.File, node, error) {
	f, err := t.open(rel, readFlags)
	if err != nil {
		return nil, node{}, err
	}
	n, err := statFile(f)
	if err == nil && !n.is(unix.S_IFREG) {
		err = ErrChanged
	}
	if err != nil {
		f.Close()
		return nil, node{}, err
	}
	return f, n, nil
}

func (t *tree) readLink(rel string) (string, error) {
	f, err := t.open(rel, pathFlags)
	if err != nil {
		return "", err
	}
	defer f.Close()
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(f.Fd()), "", buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// node is what the kernel says about one entry at one moment.
type node struct {
	mode         uint32
	uid          uint32
	size         int64
	ino          uint64
	mtime        int64 // all times in nanoseconds
	ctime, btime int64 // btime 0 where the file system has none
	whiteoutDev  bool  // device number 0/0
}

func (n *node) is(typ uint32) bool { return n != nil && n.mode&unix.S_IFMT == typ }
func (n *node) isDir() bool        { return n.is(unix.S_IFDIR) }
func (n *node) stamp() Stamp       { return Stamp{n.ino, n.ctime} }

// taken is when the sandbox got this entry: its birth, which it cannot set, or where there is
// none its last change, which it can only move forward.
func (n *node) taken() int64 {
	if n.btime != 0 {
		return n.btime
	}
	return n.ctime
}

// statAt describes name in an open directory.
func statAt(dir *os.File, name string) (node, error) {
	var st unix.Statx_t
	flags := unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if err := unix.Statx(int(dir.Fd()), name, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil {
		return node{}, err
	}
	n := node{
		mode: uint32(st.Mode), uid: st.Uid, size: int64(st.Size), ino: st.Ino,
		mtime: nanos(st.Mtime), ctime: nanos(st.Ctime),
		whiteoutDev: st.Rdev_major == 0 && st.Rdev_minor == 0,
	}
	if st.Mask&unix.STATX_BTIME != 0 {
		n.btime = nanos(st.Btime)
	}
	return n, nil
}

func statFile(f *os.File) (node, error) { return statAt(f, "") }

func nanos(t unix.StatxTimestamp) int64 { return t.Sec*int64(time.Second) + int64(t.Nsec) }

const overlayPrefix = "user.overlay."

// marks are the overlay's attributes of one entry that mean something here. The others (origin,
// impure, nlink, uuid) are the kernel's bookkeeping. A sandbox cannot set any of them through the
// overlay; forged ones could at most delete.
type marks struct {
	opaque    bool // directory: the lower one does not show through
	xwhiteout bool // directory: may hold whiteouts that are empty files
	whiteout  bool // empty file in such a directory: a whiteout
}

// readMarks reads the marks of an open file. It fails with ErrPlanted on a redirect or a metacopy:
// with userxattr the kernel makes neither, and they would show another file under this name.
func readMarks(f *os.File) (marks, error) {
	var found [4]string
	for i, name := range []string{"redirect", "metacopy", "whiteout", "opaque"} {
		var v [2]byte
		n, err := unix.Fgetxattr(int(f.Fd()), overlayPrefix+name, v[:])
		switch {
		case err == unix.ENODATA || err == unix.ENOTSUP:
			continue
		case err != nil && err != unix.ERANGE:
			return marks{}, fmt.Errorf("read attribute %s%s: %w", overlayPrefix, name, err)
		case i < 2:
			return marks{}, fmt.Errorf("%w %s%s", ErrPlanted, overlayPrefix, name)
		}
		found[i] = "=" + string(v[:max(n, 0)]) // a longer value is no mark, for the kernel as well
	}
	return marks{opaque: found[3] == "=y", xwhiteout: found[3] == "=x", whiteout: found[2] != ""}, nil
}

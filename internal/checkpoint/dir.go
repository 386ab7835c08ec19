package checkpoint

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cofferhq/coffer/internal/safepath"
)

const (
	readFlags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	dirFlags  = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW
)

// A Dir is a directory of the tree, open.
type Dir struct {
	Path string // "" for the top
	file *os.File
}

// OpenDir opens the top of a tree, whose path is ours and is believed.
func OpenDir(root string) (*Dir, error) {
	f, err := safepath.OpenDir(root)
	if err != nil {
		return nil, err
	}
	return &Dir{file: f}, nil
}

// OpenDirStrictly opens the top of a tree by a path on which somebody else may put links: it
// follows none. from is where the path starts.
func OpenDirStrictly(from, root string) (*Dir, error) {
	at, err := os.OpenFile(from, onTheWay, 0)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	f, err := safepath.Open(at, strings.Trim(root, "/"), dirFlags, safepath.NoLinks)
	if err != nil {
		return nil, fmt.Errorf("open %s, through no link: %w", root, err)
	}
	return &Dir{file: f}, nil
}

func (d *Dir) Close() { d.file.Close() }

// FD is the directory's descriptor, good until it is closed.
func (d *Dir) FD() int { return int(d.file.Fd()) }

// Find opens the directory of a path and returns it with the last name, going through no
// link. The caller closes it.
func Find(root, rel string) (*Dir, string, error) {
	top, err := OpenDir(root)
	if err != nil {
		return nil, "", err
	}
	defer top.Close()
	return top.Find(rel)
}

// Find is Find in an open directory.
func (d *Dir) Find(rel string) (*Dir, string, error) {
	if rel == "." || rel != path.Clean(rel) || !filepath.IsLocal(rel) {
		return nil, "", unix.EINVAL
	}
	dir, name := path.Split(rel)
	f, err := safepath.Open(d.file, strings.TrimSuffix(dir, "/"), dirFlags, safepath.NoLinks)
	if err != nil {
		return nil, "", err
	}
	return &Dir{Path: strings.TrimSuffix(dir, "/"), file: f}, name, nil
}

func (d *Dir) stat(name string) (Stat, error) {
	var st unix.Stat_t
	err := unix.Fstatat(d.FD(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return statOf(&st), err
}

// Open opens a regular file for reading, and says what it is once it is open.
func (d *Dir) Open(name string) (*os.File, Stat, error) {
	fd, err := unix.Openat(d.FD(), name, readFlags, 0)
	if err != nil {
		return nil, Stat{}, err
	}
	f := os.NewFile(uintptr(fd), name)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = safepath.ErrNotRegular
	}
	if err != nil {
		f.Close()
		return nil, Stat{}, err
	}
	return f, statOf(&st), nil
}

// Link reads a symbolic link.
func (d *Dir) Link(name string) (string, error) {
	b := make([]byte, unix.PathMax+1)
	n, err := unix.Readlinkat(d.FD(), name, b)
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

// text reads a small file; what is not one is empty.
func (d *Dir) text(name string, limit int64) string {
	f, _, err := d.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil || int64(len(b)) > limit {
		return ""
	}
	return string(b)
}

package checkpoint

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// OpenDir opens the top of a tree, whose path is ours and is believed.
func OpenDir(root string) (*Dir, error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", root, err)
	}
	return &Dir{fd: fd}, nil
}

// OpenDirStrictly opens the top of a tree by a path on which somebody else may put links: it
// goes through none. from is where the path starts.
func OpenDirStrictly(from, root string) (*Dir, error) {
	fd, err := unix.Open(from, onTheWay, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", from, err)
	}
	for part := range strings.SplitSeq(strings.Trim(root, "/"), "/") {
		next, err := -1, error(unix.EINVAL)
		if plain(part) {
			next, err = unix.Openat(fd, part, onTheWay|unix.O_NOFOLLOW, 0)
		}
		unix.Close(fd)
		if err != nil {
			return nil, fmt.Errorf("open %s, through no link: %w", root, err)
		}
		fd = next
	}
	top, err := unix.Openat(fd, ".", dirFlags, 0)
	unix.Close(fd)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", root, err)
	}
	return &Dir{fd: top}, nil
}

// Close closes a directory that was opened here.
func (d *Dir) Close() { unix.Close(d.fd) }

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
	fd, err := unix.Openat(d.fd, ".", dirFlags, 0)
	if err != nil {
		return nil, "", err
	}
	parts := strings.Split(rel, "/")
	for _, part := range parts[:len(parts)-1] {
		next, err := -1, error(unix.EINVAL)
		if plain(part) {
			next, err = unix.Openat(fd, part, dirFlags, 0)
		}
		unix.Close(fd)
		if err != nil {
			return nil, "", err
		}
		fd = next
	}
	name := parts[len(parts)-1]
	if !plain(name) {
		unix.Close(fd)
		return nil, "", unix.EINVAL
	}
	return &Dir{Path: strings.Join(parts[:len(parts)-1], "/"), fd: fd}, name, nil
}

// plain says whether a word is the name of an entry.
func plain(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}

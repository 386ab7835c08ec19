package rootfs

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// A file of the user's that must stay unread is covered by something that nobody can
// open: a device, on a mount without devices. That says "permission denied" to everybody,
// root of the sandbox included, and programs that look for a regular file find none. A
// directory is covered by an empty one. Either way the place is a mount point, which can
// be neither renamed, nor replaced, nor removed from inside; renaming what is above it
// takes the mount along.

// forbid covers a place of the sandbox. /dev and the empty directory are there already.
func forbid(r root, target string) error { return forbidIn(r, target, r) }

// forbidIn covers a place of a tree that may not be in the sandbox yet, whose root is r.
func forbidIn(tree root, target string, r root) error {
	at, err := tree.open(target)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	dir, err := isDir(at)
	if err != nil {
		return err
	}
	from, err := nothing(r, dir)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	if same, err := covered(at, from); err != nil || same {
		return err
	}
	return cover(from, at, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOEXEC|safe)
}

// nothing opens what lies over hidden files, or over hidden directories.
func nothing(r root, dir bool) (int, error) {
	if dir {
		return r.make(Empty, true)
	}
	fd, err := r.open("/dev/null")
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		unix.Close(fd)
		return -1, errors.New("/dev/null is not what it should be")
	}
	return fd, nil
}

// covered says whether a place is covered by this very thing already. Whoever is told of
// a file twice must not heap up mounts.
func covered(at, by int) (bool, error) {
	mounted, err := isMount(at)
	if err != nil || !mounted {
		return false, err
	}
	var here, there unix.Stat_t
	if err := errors.Join(unix.Fstat(at, &here), unix.Fstat(by, &there)); err != nil {
		return false, err
	}
	return here.Dev == there.Dev && here.Ino == there.Ino, nil
}

// Forbid covers a place of a running sandbox. If it is in a tree that programs inside can
// change, the directories between are kept where they are. dir says what it is outside.
func (l *Layers) Forbid(target, tree string, dir bool) error {
	if tree == "" {
		return l.cover("hide", target, tree, func(r root, target string, _ root) error { return l.forbidInView(r, target, dir) })
	}
	return l.cover("hide", target, tree, forbidIn)
}

// ForbidStale covers a place of a copy-on-write view where something is still seen that has
// another path outside by now. If it is not seen there, it never will be.
func (l *Layers) ForbidStale(target string) error {
	return l.cover("hide", target, "", func(r root, target string, _ root) error { return forbid(r, target) })
}

// Lock makes a file of a running sandbox read-only, and keeps it where it is. What hides
// files is a file too, and nobody inside may take it away.
func (l *Layers) Lock(target, tree string) error {
	return l.cover("keep", target, tree, func(tree root, target string, _ root) error {
		at, err := tree.open(target)
		if err != nil {
			return err
		}
		defer unix.Close(at)
		if locked, err := isLocked(at); err != nil || locked {
			return err
		}
		return cover(at, at, unix.MOUNT_ATTR_RDONLY|safe)
	})
}

// isLocked says whether a place is a mount point that cannot be written to: this one or, if
// it is hidden too, what hides it.
func isLocked(at int) (bool, error) {
	mounted, err := isMount(at)
	if err != nil || !mounted {
		return false, err
	}
	var st unix.Statfs_t
	err = unix.Fstatfs(at, &st)
	return st.Flags&unix.ST_RDONLY != 0, err
}

// cover has a place covered, in its tree if that came late, below the root otherwise.
func (l *Layers) cover(what, target, tree string, do func(tree root, target string, r root) error) error {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	l.lates.mu.Lock()
	defer l.lates.mu.Unlock()
	rel, ok := strings.CutPrefix(target, strings.TrimSuffix(tree, "/")+"/")
	if mount, late := l.lates.trees[tree]; late && ok {
		if err := l.anchorBelow(tree, mount, Above(rel)); err != nil {
			return err
		}
		err = do(root{mount}, rel, root{fd})
	} else {
		// First the directories: once they are kept, the place is the one that was meant.
		if ok && tree != "" {
			if err := l.anchor(root{fd}, tree, Above(rel)); err != nil {
				return err
			}
		}
		err = do(root{fd}, target, root{fd})
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, target, err)
	}
	return nil
}

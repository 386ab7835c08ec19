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
// takes the mount along. What is hidden at a start is also kept in its place, by anchors and
// pins; what appears later is covered as it is found.

// ForbidNow covers a place of a running sandbox, or jail, whose root is this process's.
func ForbidNow(path string) error {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := forbid(root{fd}, path); err != nil {
		return fmt.Errorf("hide %s: %w", path, err)
	}
	return nil
}

// forbid covers a place of the sandbox. /dev and the empty directory are there already.
func forbid(r root, target string) error {
	at, err := r.open(target)
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

// A directory above a hidden file stays where it is: moved somewhere else, the file might
// match no rule when the sandbox starts again. What keeps it is a mount, for the kernel
// neither renames nor removes a directory that is a mount point anywhere in the caller's
// mount namespace.
//
// A [Pin] is such a mount in the very place. But the kernel moves no file from one mount to
// another, and programs inside would have to copy. So an anchor is a mount in a second view
// of the tree, of which no program sees anything, because it hangs below the covered layers.
// It stops renames all the same, as it is about the directory and not about the path.

// anchor keeps a directory of a tree where it is. One that is gone needs no anchor.
func (a *assembly) anchor(tree, dir string) error {
	view, err := a.view(tree)
	if err != nil {
		return fmt.Errorf("make a second view of %s: %w", tree, err)
	}
	at, err := root{view}.open(strings.TrimPrefix(dir, tree))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if mounted, err := isMount(at); err != nil || mounted {
		return err
	}
	self, err := cloneOne(at)
	if err != nil {
		return err
	}
	defer unix.Close(self)
	return attach(self, at)
}

// view returns the second view of a tree.
func (a *assembly) view(tree string) (int, error) {
	if fd, ok := a.views[tree]; ok {
		return fd, nil
	}
	if a.layers == nil {
		return -1, errors.New("there are no layers")
	}
	from, err := a.root.open(tree)
	if err != nil {
		return -1, err
	}
	defer unix.Close(from)
	fd, err := cloneOne(from)
	if err != nil {
		return -1, err
	}
	at, err := a.layers.root.make(fmt.Sprintf("/anchors/%d", len(a.views)), true)
	if err == nil {
		err = attach(fd, at)
		unix.Close(at)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	a.views[tree] = fd
	return fd, nil
}

// cloneOne copies the mount at the descriptor without those below it, unless these are
// mounts of the host that cannot be left out.
func cloneOne(fd int) (int, error) {
	self, err := unix.OpenTree(fd, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err == unix.EINVAL {
		self, err = clone(fd)
	}
	return self, err
}

// isMount says whether the descriptor is the root of a mount. (Linux 5.8)
func isMount(fd int) (bool, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_NO_AUTOMOUNT, 0, &st); err != nil {
		return false, err
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

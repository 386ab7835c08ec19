package rootfs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A directory above a hidden file stays where it is: moved somewhere else, the file might
// match no rule when the sandbox starts again. What keeps it is a mount, for the kernel
// neither renames nor removes a directory that is a mount point anywhere in the caller's
// mount namespace.
//
// A [Pin] is such a mount in the very place. That cannot be done to a running sandbox:
// programs that are below the place already would go on below the old mount, and not see
// what is covered later in the new one. So an anchor is a mount in a second view of the
// tree, of which no program sees anything, because it hangs below the covered layers. It
// stops renames all the same, as it is about the directory and not about the path.

// maxAnchors bounds how many directories are kept in this way.
const maxAnchors = 1 << 14

// anchors are the second views, and what is anchored in them.
type anchors struct {
	mu     sync.Mutex
	views  map[string]int // descriptors, by the tree's path inside
	made   int
	kept   int // views that were made
	stowed int // mounts that were moved out of sight
}

// anchor keeps directories where they are. They are named from the tree's root on, outer
// before inner. Those that are gone are left out.
func (l *Layers) anchor(r root, tree string, dirs []string) error {
	if len(dirs) == 0 {
		return nil
	}
	from, err := r.open(tree)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	return l.anchorBelow(tree, from, dirs)
}

// anchorFirm is anchor for directories that have to be there: once it returns they are the
// ones that the path leads to, and stay so. A directory that is moved while it is anchored is
// kept where it was moved to.
func (l *Layers) anchorFirm(r root, tree string, dirs []string) error {
	if err := l.anchor(r, tree, dirs); err != nil {
		return err
	}
	l.anchors.mu.Lock()
	defer l.anchors.mu.Unlock()
	for _, dir := range dirs {
		at, err := root{l.anchors.views[tree]}.open(dir)
		if err != nil {
			return errors.Join(ErrMoved, err)
		}
		mounted, err := isMount(at)
		unix.Close(at)
		if err != nil || !mounted {
			return errors.Join(ErrMoved, err)
		}
	}
	return nil
}

// anchorBelow is anchor for a tree of which there is a descriptor.
func (l *Layers) anchorBelow(tree string, from int, dirs []string) error {
	l.anchors.mu.Lock()
	defer l.anchors.mu.Unlock()
	if len(dirs) == 0 {
		return nil
	}
	view, err := l.view(from, tree)
	if err != nil {
		return fmt.Errorf("make a second view of %s: %w", tree, err)
	}
	for _, dir := range dirs {
		err := l.hold(view, dir)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			return nil // gone, or another thing by now, and so is what was in it
		}
		if err != nil {
			return fmt.Errorf("keep %s where it is: %w", filepath.Join(tree, dir), err)
		}
	}
	return nil
}

// view returns the second view of a tree.
func (l *Layers) view(from int, tree string) (int, error) {
	if fd, ok := l.anchors.views[tree]; ok {
		return fd, nil
	}
	fd, err := unix.OpenTree(from, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err == unix.EINVAL {
		fd, err = clone(from) // there are mounts of the host below it, which cannot be left out
	}
	if err != nil {
		return -1, err
	}
	at, err := l.root.make(fmt.Sprintf("/anchors/%d", l.anchors.kept), true)
	if err == nil {
		err = attach(fd, at)
		unix.Close(at)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	l.anchors.kept++
	if l.anchors.views == nil {
		l.anchors.views = map[string]int{}
	}
	l.anchors.views[tree] = fd
	return fd, nil
}

// forgetView is for a tree that is gone: another may come in its place.
func (l *Layers) forgetView(tree string) {
	l.anchors.mu.Lock()
	defer l.anchors.mu.Unlock()
	if fd, ok := l.anchors.views[tree]; ok {
		delete(l.anchors.views, tree)
		unix.Close(fd)
	}
}

// hold makes a directory of a second view a mount point, if it is none.
func (l *Layers) hold(view int, dir string) error {
	at, err := root{view}.open(strings.TrimPrefix(dir, "/"))
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if mounted, err := isMount(at); err != nil || mounted {
		return err
	}
	if l.anchors.made >= maxAnchors {
		return fmt.Errorf("there are more than %d such directories", maxAnchors)
	}
	self, err := unix.OpenTree(at, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err == unix.EINVAL {
		self, err = clone(at)
	}
	if err != nil {
		return err
	}
	defer unix.Close(self)
	if err := attach(self, at); err != nil {
		return err
	}
	l.anchors.made++
	return nil
}

// isMount says whether the descriptor is the root of a mount. (Linux 5.8)
func isMount(fd int) (bool, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_NO_AUTOMOUNT, 0, &st); err != nil {
		return false, err
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

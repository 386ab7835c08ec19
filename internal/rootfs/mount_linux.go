package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/ui"
	"golang.org/x/sys/unix"
)

// The mount calls of Linux 5.12 and later work on descriptors: a mount is made
// detached, given its attributes, and only then moved to where it shall be seen. So
// nothing is ever visible half-configured, and no path is looked up twice.

// clone copies the mount tree at the descriptor, detached.
func clone(fd int) (int, error) {
	return unix.OpenTree(fd, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
}

// restrict sets attributes on a whole detached tree.
func restrict(fd int, attr uint64) error {
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr})
}

// attach moves a detached mount onto the target.
func attach(fd, target int) error {
	return unix.MoveMount(fd, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// newfs makes a detached file system of a kind, with options "a=b,c".
func newfs(kind, options string, attr int) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open file system %s: %w", kind, err)
	}
	defer unix.Close(fs)
	for o := range strings.SplitSeq(options, ",") {
		if o == "" {
			continue
		}
		if key, value, ok := strings.Cut(o, "="); ok {
			err = unix.FsconfigSetString(fs, key, value)
		} else {
			err = unix.FsconfigSetFlag(fs, key)
		}
		if err != nil {
			return -1, fmt.Errorf("%s option %s: %w", kind, o, reason(fs, err))
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("create %s: %w", kind, reason(fs, err))
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attr)
	if err != nil {
		return -1, fmt.Errorf("mount %s: %w", kind, err)
	}
	return fd, nil
}

// reason adds what the kernel has to say about a file system it refused.
func reason(fs int, err error) error {
	buf := make([]byte, 512)
	if n, e := unix.Read(fs, buf); e == nil && n > 0 {
		return fmt.Errorf("%w (%s)", err, strings.TrimSpace(string(buf[:n])))
	}
	return err
}

const noLinks = unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// root is the sandbox's root while it is built, by descriptor.
type root struct{ fd int }

// open opens a path of the sandbox without following any symbolic link.
func (r root) open(path string) (int, error) {
	rel := strings.TrimPrefix(path, "/")
	if rel == "" {
		rel = "."
	}
	fd, err := unix.Openat2(r.fd, rel, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: noLinks | unix.RESOLVE_BENEATH,
	})
	if err == unix.ELOOP {
		return -1, &linkError{path}
	}
	return fd, err
}

// linkError says that a symbolic link is in the way.
type linkError struct{ path string }

func (e *linkError) Error() string { return e.path + ": there is a symbolic link in the way" }
func (e *linkError) Unwrap() error { return unix.ELOOP }

// make opens a path of the sandbox, creating what is missing.
func (r root) make(path string, dir bool) (int, error) {
	fd, err := r.open(path)
	if err != unix.ENOENT {
		return fd, err
	}
	parent, err := r.make(filepath.Dir(path), true)
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	name := filepath.Base(path)
	if dir {
		err = unix.Mkdirat(parent, name, 0o755)
	} else {
		err = unix.Mknodat(parent, name, unix.S_IFREG|0o644, 0)
	}
	if err != nil && err != unix.EEXIST {
		return -1, &os.PathError{Op: "create", Path: path, Err: err}
	}
	fd, err = unix.Openat(parent, name, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// isDir says whether the descriptor is a directory.
func isDir(fd int) (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	return st.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}

// Detach copies the mounts at a path of the host, without following symbolic links,
// for a machine that may not look there itself. With a user namespace, the ids on
// disk are shifted into the ids of that namespace, both ways. It needs root.
func Detach(path string, userns int) (int, error) {
	top, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(top)
	at, err := root{top}.open(path)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(at)
	tree, err := clone(at)
	if err != nil {
		return -1, fmt.Errorf("clone the mount of %s: %w", path, err)
	}
	// What is mounted below it on the host must not appear here, nor ours there.
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Propagation: unix.MS_PRIVATE}); err != nil {
		unix.Close(tree)
		return -1, fmt.Errorf("make the mounts of %s private: %w", path, err)
	}
	if userns < 0 {
		return tree, nil
	}
	shift := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(userns)}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &shift); err != nil {
		unix.Close(tree)
		return -1, ui.Hint(fmt.Errorf("shift the ids of %s: %w", path, err),
			"its file system cannot shift ids, which a sandbox started by root needs; start coffer as an ordinary user")
	}
	return tree, nil
}

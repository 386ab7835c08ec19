package rootfs

import (
	"errors"
	"fmt"

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

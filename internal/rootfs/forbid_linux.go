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
// takes the mount along.

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
	return cover(from, at, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOEXEC|safe)
}

// nothing opens what lies over hidden files, or over hidden directories.
func nothing(r root, dir bool) (int, error) {
	if dir {
		return r.make(emptyDir, true)
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

// ForbidNow covers places of a running sandbox, outer before inner. It says for each how
// that went; one that is not there any more needs no cover.
func ForbidNow(targets []string) []error {
	results := make([]error, len(targets))
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	for i, t := range targets {
		if err != nil {
			results[i] = err
		} else if e := forbid(root{fd}, t); e != nil {
			results[i] = fmt.Errorf("hide %s: %w", t, e)
		}
	}
	return results
}

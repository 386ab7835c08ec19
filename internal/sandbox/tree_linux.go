package sandbox

import (
	"errors"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// noOpenat2 remembers a kernel before 5.6, or a filter that hides the call.
var noOpenat2 atomic.Bool

// openDir opens the directory name in dirfd itself: ENOTDIR for a link, EXDEV
// for a mount point. openat2 sees bind mounts of the same file system too, which
// device numbers do not show; and unlike them it takes a btrfs subvolume for the
// plain directory it is to us.
func openDir(dirfd int, name string, flags int) (int, error) {
	flags |= unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	for !noOpenat2.Load() {
		fd, err := unix.Openat2(dirfd, name, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_XDEV})
		switch {
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
			noOpenat2.Store(true)
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		default:
			return fd, err
		}
	}
	return openDirSameDevice(dirfd, name, flags)
}

// chmodDir makes a directory usable that cannot be opened. Through a descriptor
// that only points at it, because chmod by name would follow a link, and
// fchmodat2 is too new (Linux 6.6).
func chmodDir(dirfd int, name string) error {
	fd, err := openDir(dirfd, name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700)
}

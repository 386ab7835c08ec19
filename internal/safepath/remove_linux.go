package safepath

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// openDir opens the directory name in dirfd itself: ENOTDIR for a link, EXDEV for a mount
// point. openat2 sees bind mounts of the same file system too, which device numbers do not
// show; and it takes a btrfs subvolume for the plain directory it is to us.
func openDir(dirfd int, name string, flags int) (int, error) {
	return openat2(dirfd, name, flags|unix.O_DIRECTORY|unix.O_NOFOLLOW, unix.RESOLVE_NO_XDEV)
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

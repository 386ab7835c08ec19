//go:build !linux

package safepath

import (
	"os"

	"golang.org/x/sys/unix"
)

// Without openat2 no path is opened: there are no sandboxes here that could have written it.
const (
	NoLinks uint64 = 1 << iota
	NoMounts
	InRoot
)

// Open opens nothing here.
func Open(*os.File, string, int, uint64) (*os.File, error) { return nil, unix.ENOSYS }

// openDir opens a directory and recognizes a mount by its device.
func openDir(dirfd int, name string, flags int) (int, error) {
	fd, err := unix.Openat(dirfd, name, flags|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var here, there unix.Stat_t
	if err = unix.Fstat(dirfd, &here); err == nil {
		err = unix.Fstat(fd, &there)
	}
	if err == nil && here.Dev != there.Dev {
		err = unix.EXDEV
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func chmodDir(dirfd int, name string) error {
	return unix.Fchmodat(dirfd, name, 0o700, unix.AT_SYMLINK_NOFOLLOW)
}

package rootfs

import "golang.org/x/sys/unix"

// ForbidNow covers a place below the root of this process, so that it must stay unread.
func ForbidNow(path string) error {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return forbid(root{fd}, path)
}

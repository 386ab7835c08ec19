package sandbox

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// shortDir names a directory by a descriptor.
func shortDir(dir string) (short string, release func(), err error) {
	fd, err := openFile(dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return "", nil, err
	}
	return "/proc/self/fd/" + strconv.Itoa(fd), func() { unix.Close(fd) }, nil
}

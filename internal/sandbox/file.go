package sandbox

import (
	"errors"
	"io/fs"
	"os"

	"github.com/cofferhq/coffer/internal/safepath"
	"golang.org/x/sys/unix"
)

// openFile opens one of our own files, never through a link. It returns a descriptor, which no
// finalizer closes: a lock lasts until it is released.
func openFile(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		if err == nil {
			return fd, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return -1, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// writeFile replaces a file of a sandbox; a crash leaves the old one or the new one. That of one
// that stays is on the disk then. A lock sees to it that one at a time writes.
func (r *Record) writeFile(path string, data []byte) error {
	return safepath.File{Path: path, Synced: !r.Ephemeral, Alone: true}.Write(data)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

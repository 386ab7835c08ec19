package git

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// renameNew renames to a name that nobody has.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // a filesystem that cannot say so
		return os.Rename(from, to)
	}
	return err
}

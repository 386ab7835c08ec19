package audit

import (
	"os"

	"golang.org/x/sys/unix"
)

// replace renames from to to. Renaming over a file that exists makes ext4 write the new
// one to disk first, which takes milliseconds: right for a log that is to last, and for
// another one too long. That one swaps the two names (Linux 3.15), which is as atomic.
func replace(from, to string, durable bool) error {
	if !durable && unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE) == nil {
		return os.Remove(from)
	}
	return os.Rename(from, to)
}

package changes

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// marks are the overlay's attributes on one entry that mean something to us.
// The others (origin, impure, nlink, uuid, …) are the kernel's bookkeeping. A
// sandbox cannot set any of these through the overlay, which hides or escapes
// them (user.overlay.overlay.*, Linux 6.7); forged ones could at most delete.
type marks struct {
	opaque    bool // directory: the lower one does not show through
	xwhiteout bool // directory: may hold whiteouts that are empty files
	whiteout  bool // empty file in such a directory: a whiteout
}

const overlayPrefix = "user.overlay."

// readMarks reads the marks of an open file. It fails with ErrPlanted on a
// redirect or a metacopy: with userxattr the kernel makes neither, and taking
// one seriously would show another file's content under this name.
func readMarks(f *os.File) (marks, error) {
	var m marks
	size, err := unix.Flistxattr(int(f.Fd()), nil)
	if err == unix.ENOTSUP || err == nil && size == 0 {
		return m, nil
	}
	// 64 KiB is the kernel's limit for a list, so this cannot be too small.
	buf := make([]byte, 64<<10)
	if err == nil {
		size, err = unix.Flistxattr(int(f.Fd()), buf)
	}
	if err != nil {
		return m, fmt.Errorf("list attributes: %w", err)
	}
	for name := range bytes.SplitSeq(buf[:size], []byte{0}) {
		switch string(name) {
		case overlayPrefix + "redirect", overlayPrefix + "metacopy":
			return m, fmt.Errorf("%w %s", ErrPlanted, name)
		case overlayPrefix + "whiteout":
			m.whiteout = true
		case overlayPrefix + "opaque":
			var v [2]byte
			// A longer value is ERANGE and, as for the kernel, no mark at all.
			if n, err := unix.Fgetxattr(int(f.Fd()), string(name), v[:]); err == nil && n == 1 {
				m.opaque = v[0] == 'y'
				m.xwhiteout = v[0] == 'x'
			}
		}
	}
	return m, nil
}

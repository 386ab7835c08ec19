package rootfs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// identify names a directory independently of its path.
func identify(dir string) (dev, ino uint64, err error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("look at %s: %w", dir, err)
	}
	return st.Dev, st.Ino, nil
}

package jail

import (
	"fmt"
	"os"

	"github.com/cofferhq/coffer/internal/ui"
	"golang.org/x/sys/unix"
)

// sharedTmp is the directory for temporary files of this user's jails without mounts, which
// cannot have a /tmp of their own. Its parent is open to everybody, so a name may be taken by
// somebody else, or by another namespace's user of the same number.
func sharedTmp() (string, error) {
	for n := range 10 {
		dir := fmt.Sprintf("/tmp/coffer-jail-%d.%d", os.Getuid(), n)
		if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
			return "", fmt.Errorf("make a directory for temporary files: %w", err)
		}
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err == nil && st.Mode == unix.S_IFDIR|0o700 && int(st.Uid) == os.Getuid() {
			return dir, nil
		}
	}
	return "", ui.Error(fmt.Sprintf("no directory for temporary files: /tmp/coffer-jail-%d.* are not yours alone", os.Getuid()), "remove them")
}

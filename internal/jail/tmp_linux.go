package jail

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/cofferhq/coffer/internal/ui"
	"golang.org/x/sys/unix"
)

// Without mounts a jail cannot have a /tmp of its own, only a directory in it.
const tmpName = "/tmp/coffer-jail-"

// ownTmp makes a directory for the temporary files of one jail, and a function that
// removes it. The process holds a lock on it, so that those of killed ones can be told
// from others, and are removed too.
func ownTmp() (dir string, remove func(), err error) {
	for range 10 {
		if dir, err = os.MkdirTemp(filepath.Dir(tmpName), filepath.Base(tmpName)); err != nil {
			return "", nil, fmt.Errorf("make a directory for temporary files: %w", err)
		}
		f, err := os.Open(dir)
		if err != nil {
			continue // swept away before it was locked
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			f.Close()
			return "", nil, fmt.Errorf("lock %s: %w", dir, err)
		}
		if _, err := os.Stat(dir); err != nil {
			f.Close()
			continue
		}
		return dir, func() {
			os.RemoveAll(dir)
			f.Close()
			sweepTmp()
		}, nil
	}
	return "", nil, fmt.Errorf("%s: it comes and goes", dir)
}

// sweepTmp removes what killed jails of this user left.
func sweepTmp() {
	dirs, _ := filepath.Glob(tmpName + "*")
	for _, dir := range dirs {
		if dir == sharedName() {
			continue
		}
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && int(st.Uid) == os.Getuid() && unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		unix.Close(fd)
	}
}

func sharedName() string { return fmt.Sprintf("%s%d", tmpName, os.Getuid()) }

// sharedTmp is the directory for temporary files of jails that nobody tidies up after.
// Its parent is open to everybody, so whoever made it must have been this user.
func sharedTmp() (string, error) {
	dir := sharedName()
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return "", fmt.Errorf("make a directory for temporary files: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return "", fmt.Errorf("look at %s: %w", dir, err)
	}
	if st.Mode != unix.S_IFDIR|0o700 || int(st.Uid) != os.Getuid() {
		return "", ui.Error(fmt.Sprintf("%s is not a directory of yours alone", dir), "remove it")
	}
	return dir, nil
}

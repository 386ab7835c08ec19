//go:build !linux

package sandbox

import (
	"os"
	"path/filepath"
)

// shortDir makes a link to a directory. It is in a folder of its own because
// anybody can put a link into /tmp; $TMPDIR is too long on macOS.
func shortDir(dir string) (short string, release func(), err error) {
	tmp, err := os.MkdirTemp("/tmp", "coffer-")
	if err != nil {
		return "", nil, err
	}
	short = filepath.Join(tmp, "s")
	release = func() {
		_ = os.Remove(short)
		_ = os.Remove(tmp)
	}
	if err := os.Symlink(dir, short); err != nil {
		release()
		return "", nil, err
	}
	return short, release, nil
}

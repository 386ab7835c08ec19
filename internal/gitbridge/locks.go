package gitbridge

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
)

// mostLocks bounds how many names are looked at: the sandbox makes them.
const mostLocks = 20000

// Unlock removes the locks of gits that were killed with their sandbox, which would stop
// every git after them. Nothing may run inside. What cannot be removed stays, and git
// says so.
func (b *Bridge) Unlock() {
	root, err := os.OpenRoot(b.private())
	if err != nil {
		return // it is in memory, or not there yet
	}
	defer root.Close()
	seen := 0
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		seen++
		switch {
		case seen > mostLocks:
			return fs.SkipAll
		case err != nil:
			return nil
		case d.IsDir() && !mayHaveLocks(name):
			return fs.SkipDir
		case d.Type().IsRegular() && strings.HasSuffix(name, ".lock"):
			if err := root.Remove(name); errors.Is(err, fs.ErrPermission) {
				return fs.SkipDir
			}
		}
		return nil
	})
}

// mayHaveLocks says whether git makes locks in a directory of its own, besides those of
// objects, which it makes again under other names.
func mayHaveLocks(dir string) bool {
	top, _, _ := strings.Cut(path.Clean(dir), "/")
	return top == "." || top == "refs" || top == "worktrees"
}

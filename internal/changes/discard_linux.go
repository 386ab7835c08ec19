package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/cofferhq/coffer/internal/safepath"
	"golang.org/x/sys/unix"
)

// Discard removes an upper directory and its overlay work directory, with all in them. The overlay
// must not be mounted. Each is renamed first (to its name with ".discarded"), so that a crash
// cannot leave half of the changes where a later Apply would take them for all of them; the next
// Discard finishes the removal. What is missing already is no error. An empty path is skipped.
func Discard(upper, work string) error {
	return errors.Join(discard(upper), discard(work))
}

func discard(p string) error {
	if p == "" {
		return nil
	}
	trash := filepath.Clean(p) + ".discarded"
	if err := safepath.RemoveTree(trash); err != nil {
		return err
	}
	switch err := os.Rename(p, trash); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("discard %s: %w", Quote(p), err)
	}
	return safepath.RemoveTree(trash)
}

// clear removes from the upper what Apply has put into the workspace. Below an opaque directory a
// name must stay, or it would vanish from the sandbox; such a directory goes as a whole, once
// everything it says has been applied.
func (a *applier) clear() error {
	applied := map[string]bool{}
	for _, c := range a.res.Applied {
		applied[c.Path] = true
	}
	partly := map[string]bool{} // has something at or below it that was not applied
	for _, e := range a.w.entries {
		for at := e.Path; !applied[e.Path] && at != "." && !partly[at]; at = path.Dir(at) {
			partly[at] = true
		}
	}
	kept := map[string]bool{}
	for _, top := range a.w.opaque {
		if kept[top] = partly[top]; !kept[top] {
			if err := a.clearOne(top, true); err != nil {
				return err
			}
		}
	}
	for i := len(a.todo) - 1; i >= 0; i-- {
		if e := a.todo[i]; applied[e.Path] && !below(e.Path, kept) {
			if err := a.clearOne(e.Path, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// below says whether p or a directory above it is in the set.
func below(p string, set map[string]bool) bool {
	for len(set) > 0 && p != "." {
		if set[p] {
			return true
		}
		p = path.Dir(p)
	}
	return false
}

// clearOne removes one path from the upper; whole with all that is in it.
func (a *applier) clearOne(rel string, whole bool) error {
	dir, err := a.w.upper.parent(rel)
	if err == unix.ENOENT || err == unix.ENOTDIR {
		return nil // went with the directory above, or that is a whiteout or a file
	}
	if err != nil {
		return fmt.Errorf("clear %s: %w", Quote(rel), err)
	}
	defer dir.Close()
	if whole {
		return safepath.RemoveIn(dir, path.Base(rel))
	}
	if err = unix.Unlinkat(int(dir.Fd()), path.Base(rel), 0); err == unix.EISDIR {
		err = unix.Unlinkat(int(dir.Fd()), path.Base(rel), unix.AT_REMOVEDIR)
	}
	switch err {
	case nil, unix.ENOENT, unix.ENOTEMPTY, unix.EEXIST:
		return nil // a directory with unchanged copies in it may stay
	}
	return fmt.Errorf("clear %s: %w", Quote(rel), err)
}

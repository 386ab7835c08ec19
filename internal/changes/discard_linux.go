package changes

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Discard removes an upper directory and its overlay work directory, with all in
// them. The overlay must not be mounted. Each is renamed first (to its name with
// ".discarded"), so that a crash cannot leave half of the changes where a later
// Apply would take them for all of them; the next Discard finishes the removal.
// What is missing already is no error. An empty path is skipped.
func Discard(upper, work string) error {
	return errors.Join(discard(upper), discard(work))
}

func discard(p string) error {
	if p == "" {
		return nil
	}
	name := filepath.Base(p)
	if name == "/" || name == "." || name == ".." {
		return fmt.Errorf("discard %s: not the name of a directory", Quote(p))
	}
	dir, err := os.Open(filepath.Dir(filepath.Clean(p)))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("discard %s: %w", Quote(p), err)
	}
	defer dir.Close()
	trash := name + ".discarded"
	if err := removeTree(dir, trash); err != nil {
		return fmt.Errorf("discard %s: %w", Quote(p), err)
	}
	err = unix.Renameat(int(dir.Fd()), name, int(dir.Fd()), trash)
	if err == unix.ENOENT {
		return nil
	}
	if err == nil {
		err = removeTree(dir, trash)
	}
	if err != nil {
		return fmt.Errorf("discard %s: %w", Quote(p), err)
	}
	return nil
}

// remover deletes a tree of any depth with few file descriptors: a directory
// found too far down is moved up to the top and waits for its turn there.
type remover struct {
	top   *os.File
	moved int
	errs  []error
}

const (
	maxOpenDirs = 32
	maxErrors   = 10
)

// removeTree removes name in dir, whatever it is; nothing there is no error.
func removeTree(dir *os.File, name string) error {
	err := unix.Unlinkat(int(dir.Fd()), name, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	top, openErr := openToEmpty(dir, name)
	if openErr == unix.ENOTDIR || openErr == unix.ELOOP {
		return err
	}
	if openErr != nil {
		return openErr
	}
	defer top.Close()
	r := &remover{top: top}
	r.empty(top, "", 0)
	if len(r.errs) > 0 {
		return errors.Join(r.errs...)
	}
	return unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR)
}

// empty removes all in a directory. It reads it again until nothing is left, as
// directories may have been moved there, or until nothing more can be removed.
func (r *remover) empty(dir *os.File, rel string, depth int) {
	before := len(r.errs)
	for {
		r.errs = r.errs[:before] // what failed before fails again, if it still does
		removed := false
		var failed []error
		if _, err := dir.Seek(0, 0); err != nil {
			r.fail(rel, err)
			return
		}
		names, err := dir.Readdirnames(-1)
		if err != nil {
			r.fail(rel, err)
			return
		}
		for _, name := range names {
			if err := r.one(dir, rel, name, depth); err != nil {
				failed = append(failed, err)
			} else {
				removed = true
			}
		}
		if len(names) == 0 {
			return
		}
		if !removed {
			r.errs = append(r.errs, failed[:min(len(failed), max(0, maxErrors-len(r.errs)))]...)
			return
		}
	}
}

// one removes, or moves away, one entry.
func (r *remover) one(dir *os.File, rel, name string, depth int) error {
	p := path.Join(rel, name)
	err := unix.Unlinkat(int(dir.Fd()), name, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	sub, openErr := openToEmpty(dir, name)
	if openErr != nil {
		if openErr != unix.ENOTDIR && openErr != unix.ELOOP {
			err = openErr
		}
		return explainOwner(dir, name, p, err)
	}
	defer sub.Close()
	if depth >= maxOpenDirs {
		return r.moveUp(dir, name, p)
	}
	before := len(r.errs)
	r.empty(sub, p, depth+1)
	if len(r.errs) > before {
		return fmt.Errorf("remove %s: not empty", Quote(p))
	}
	if err := unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR); err != nil {
		return explainOwner(dir, name, p, err)
	}
	return nil
}

// moveUp moves a directory to the top. A name the sandbox took already just
// leads to the next; taking the place of an empty directory does no harm.
func (r *remover) moveUp(dir *os.File, name, p string) error {
	for range 1000 {
		r.moved++
		err := unix.Renameat(int(dir.Fd()), name, int(r.top.Fd()), fmt.Sprintf(".moved-%d", r.moved))
		switch err {
		case nil:
			return nil
		case unix.EEXIST, unix.ENOTEMPTY, unix.ENOTDIR:
		default:
			return explainOwner(dir, name, p, err)
		}
	}
	return fmt.Errorf("remove %s: no free name to move it to", Quote(p))
}

func (r *remover) fail(rel string, err error) {
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, fmt.Errorf("remove %s: %w", Quote(path.Join(".", rel)), err))
	}
}

// openToEmpty opens a directory and gives itself the permissions to empty it:
// the sandbox may have taken them, and the kernel makes work directories 000.
func openToEmpty(dir *os.File, name string) (*os.File, error) {
	p, err := openAt(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if n, err := statFile(p); err == nil && n.mode&0o700 != 0o700 {
		chmodFile(p, 0o700) // if it fails, so does what follows, with a better reason
	}
	return openAt(p, ".", dirFlags)
}

// explainOwner adds whose directory stands in the way, as the usual reason is a
// sandbox with several user ids.
func explainOwner(dir *os.File, name, p string, err error) error {
	if err == unix.EACCES || err == unix.EPERM {
		if n, statErr := statAt(dir, name); statErr == nil && int(n.uid) != os.Geteuid() {
			return fmt.Errorf("remove %s: %w (owned by uid %d; remove it inside a user namespace that maps this uid)",
				Quote(p), err, n.uid)
		}
		if n, statErr := statFile(dir); statErr == nil && int(n.uid) != os.Geteuid() {
			return fmt.Errorf("remove %s: %w (directory owned by uid %d; remove it inside a user namespace that maps this uid)",
				Quote(p), err, n.uid)
		}
	}
	return fmt.Errorf("remove %s: %w", Quote(p), err)
}

// clear removes from the upper what Apply has put into the workspace. Below an
// opaque directory a name must stay, or it would vanish from the sandbox; such a
// directory goes as a whole, once everything it says has been applied.
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
	dir, err := a.w.upper.dir(parent(rel))
	if err == unix.ENOENT || err == unix.ENOTDIR {
		return nil // went with the directory above, or that is a whiteout or a file
	}
	if err != nil {
		return fmt.Errorf("clear %s: %w", Quote(rel), err)
	}
	defer dir.Close()
	name := path.Base(rel)
	if whole {
		err = removeTree(dir, name)
	} else if err = unix.Unlinkat(int(dir.Fd()), name, 0); err == unix.EISDIR {
		err = unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR)
	}
	switch err {
	case nil, unix.ENOENT, unix.ENOTEMPTY, unix.EEXIST:
		return nil // a directory with unchanged copies in it may stay
	}
	return fmt.Errorf("clear %s: %w", Quote(rel), err)
}

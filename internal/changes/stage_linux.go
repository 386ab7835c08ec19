package changes

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Files are written under a temporary name, many at a time, and then synced and
// renamed together: syncing each on its own costs a journal commit per file,
// syncing the second of a batch finds its commit done.
const batch = 64

// staged is a file or link under its temporary name.
type staged struct {
	e    *entry
	dir  *os.File // the workspace directory it is in
	temp string
	file *os.File // nil for a symlink
}

// stagedError is a failure of an entry other than the one at hand.
type stagedError struct {
	path string
	err  error
}

func (s *stagedError) Error() string { return s.err.Error() }
func (s *stagedError) Unwrap() error { return s.err }

const tempPrefix = ".coffer-tmp-"

// tempName is the temporary name of an entry. It depends on the name alone, so
// that the Apply after a killed one finds and replaces what that left.
func tempName(rel string) string {
	sum := sha256.Sum256([]byte(path.Base(rel)))
	return tempPrefix + hex.EncodeToString(sum[:8])
}

// isTemp says whether a name could be a temporary one; the sandbox's files of
// such names are not applied, as they could take the place of ours.
func isTemp(name string) bool {
	digits, ok := strings.CutPrefix(name, tempPrefix)
	return ok && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == ""
}

// put adds or replaces one entry: directories at once, others are staged.
func (a *applier) put(e *entry, dir *os.File) error {
	if e.up.isDir() {
		return a.putDir(e, dir)
	}
	s, err := a.stage(e, dir)
	if err != nil {
		return err
	}
	a.pending = append(a.pending, s)
	if len(a.pending) >= batch {
		return a.commit()
	}
	return nil
}

// holds says whether a staged entry still needs this directory.
func (a *applier) holds(dir *os.File) bool {
	n := len(a.pending)
	return n > 0 && a.pending[n-1].dir == dir
}

// stage writes an entry under its temporary name.
func (a *applier) stage(e *entry, dir *os.File) (staged, error) {
	s := staged{e: e, dir: dir, temp: tempName(e.Path)}
	if err := removeTemp(dir, s.temp); err != nil {
		return s, err
	}
	if e.up.is(unix.S_IFLNK) {
		return s, unix.Symlinkat(e.Target, int(dir.Fd()), s.temp)
	}
	src, err := a.source(e)
	if err != nil {
		return s, err
	}
	defer src.Close()
	fd, err := unix.Openat(int(dir.Fd()), s.temp,
		unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return s, err
	}
	s.file = os.NewFile(uintptr(fd), s.temp)
	err = copyFile(a.ctx, s.file, src, e.up.size)
	if err == nil {
		err = same(src, e)
	}
	if err == nil {
		// Not before the content is there: it is the sandbox's mode. Only the
		// nine bits, so that no set-user-ID bit arrives.
		err = unix.Fchmod(fd, e.up.mode&0o777)
	}
	if err != nil {
		s.discard()
	}
	return s, err
}

// source opens the upper file of an entry and makes sure it is the one listed.
func (a *applier) source(e *entry) (*os.File, error) {
	dir, err := a.w.upper.open(parent(e.Path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("upper: %w", gone(err))
	}
	defer dir.Close()
	f, _, err := openRegular(dir, path.Base(e.Path))
	if err != nil {
		return nil, fmt.Errorf("upper: %w", gone(err))
	}
	if err := same(f, e); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// same says whether an open upper file is what was listed, to the last write:
// the ctime moves with each, and the sandbox cannot set it.
func same(f *os.File, e *entry) error {
	n, err := statFile(f)
	if err == nil && (n.stamp() != e.up.stamp() || n.size != e.up.size || n.mode != e.up.mode) {
		err = fmt.Errorf("upper: %w", ErrChanged)
	}
	return err
}

// discard removes the temporary file.
func (s *staged) discard() {
	if s.file != nil {
		s.file.Close()
	}
	unix.Unlinkat(int(s.dir.Fd()), s.temp, 0)
}

// drop removes all that is staged.
func (a *applier) drop() {
	for i := range a.pending {
		a.pending[i].discard()
		a.pending[i].dir.Close()
	}
	a.pending = nil
}

// commit renames all that is staged into place.
func (a *applier) commit() error {
	for _, s := range a.pending {
		if s.file != nil {
			if err := s.file.Sync(); err != nil {
				return &stagedError{s.e.Path, err}
			}
		}
	}
	for len(a.pending) > 0 {
		s := a.pending[0]
		if err := a.rename(s); err != nil {
			return &stagedError{s.e.Path, err}
		}
		a.done(s.e, s.dir)
		a.pending = a.pending[1:]
		if s.file != nil {
			s.file.Close()
		}
		s.dir.Close()
	}
	return nil
}

// rename moves one staged entry into place, over what was listed there and over
// nothing else. For a new entry the kernel guarantees it; for a replaced one a
// write by the user between the look and the rename (microseconds) is lost.
func (a *applier) rename(s staged) error {
	if err := a.unchanged(s.e, s.dir); err != nil {
		return err
	}
	fd, name := int(s.dir.Fd()), path.Base(s.e.Path)
	if s.e.low == nil && !a.opts.Force {
		err := unix.Renameat2(fd, s.temp, fd, name, unix.RENAME_NOREPLACE)
		if err == unix.EEXIST {
			return fmt.Errorf("workspace: %w", ErrChanged)
		}
		if err != unix.EINVAL && err != unix.ENOSYS {
			return err
		}
	}
	return unix.Renameat(fd, s.temp, fd, name)
}

// removeTemp removes what a killed Apply left under a temporary name.
func removeTemp(dir *os.File, temp string) error {
	err := unix.Unlinkat(int(dir.Fd()), temp, 0)
	if err == unix.EISDIR || err == unix.EPERM {
		err = unix.Unlinkat(int(dir.Fd()), temp, unix.AT_REMOVEDIR)
	}
	if err != nil && err != unix.ENOENT {
		return fmt.Errorf("remove leftover %s: %w", temp, err)
	}
	return nil
}

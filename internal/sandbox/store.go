package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
	"golang.org/x/sys/unix"
)

const (
	storeLockName = ".lock"
	newPrefix     = ".new-"
	gonePrefix    = ".gone-"
)

// A Store is the directory of the sandboxes of a user. Any number of processes may use it.
type Store struct {
	dir string

	// Mend, if set, is called by Sweep for a sandbox that stays but whose supervisor was killed,
	// with its folder. After an error it is called again by the next sweep.
	Mend func(folder string) error
}

// DefaultDir is where a user's sandboxes are.
func DefaultDir() (string, error) {
	data, err := safepath.UserData()
	return filepath.Join(data, "sandboxes"), err
}

// Open returns the store in dir, which the first Create makes. A directory that others can write is
// refused: they could plant a record, and with it a workspace.
func Open(dir string) (*Store, error) {
	if dir == "" {
		return nil, errors.New("open sandbox store: no directory given")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open sandbox store: %w", err)
	}
	s := &Store{dir: abs}
	if err := s.check(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, s.hint(err)
	}
	return s, nil
}

// Dir is the store's absolute path.
func (s *Store) Dir() string { return s.dir }

func (s *Store) check() error {
	info, err := os.Stat(s.dir)
	if err != nil {
		return fmt.Errorf("open sandbox store: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("open sandbox store: %w", &fs.PathError{Op: "open", Path: s.dir, Err: unix.ENOTDIR})
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return ui.Error(fmt.Sprintf("sandbox store %s belongs to uid %d, not to you (uid %d)", s.dir, st.Uid, os.Geteuid()),
			"chown it to yourself and chmod 700 it, or set XDG_DATA_HOME to a directory you own")
	}
	if perm := info.Mode().Perm(); perm&0o022 != 0 {
		return ui.Hint(fmt.Errorf("sandbox store %s can be written by others (mode %04o)", s.dir, perm), "chmod 700 %s", s.dir)
	}
	return nil
}

func (s *Store) make() error {
	err := s.check()
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := safepath.Directory(s.dir, 0o700); err != nil {
		return fmt.Errorf("make its store: %w", err)
	}
	return s.check()
}

// lock takes the store lock. Holders wait for nothing but the disk.
func (s *Store) lock() (unlock func(), err error) {
	path := filepath.Join(s.dir, storeLockName)
	fd, err := openFile(path, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return nil, fmt.Errorf("lock sandbox store: %w", err)
	}
	if err := waitLock(fd); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("lock sandbox store: %w", &fs.PathError{Op: "lock", Path: path, Err: err})
	}
	return func() { unix.Close(fd) }, nil
}

// entries lists the store, sorted. A store not yet made has none.
func (s *Store) entries() (names []string, err error) {
	all, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, safepath.Dangling(s.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("read sandbox store: %w", err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names, nil
}

// hint adds the way out to errors that have one. Only exported methods call it.
func (s *Store) hint(err error) error {
	switch {
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission):
		return ui.Hint(err, "make %s writable for you, or set XDG_DATA_HOME to a directory that is", s.dir)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return ui.Hint(err, "free some space, or set XDG_DATA_HOME to a directory on another disk")
	case errors.Is(err, unix.ENOTDIR):
		return ui.Hint(err, "a file is where a directory is to be: move it away, or set XDG_DATA_HOME to a directory you own")
	}
	return err
}

// openFile opens one of our own files, never through a link. It returns a descriptor, which no
// finalizer closes: a lock lasts until it is released.
func openFile(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		if err == nil {
			return fd, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return -1, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// writeFile replaces a file of a sandbox; a crash leaves the old one or the new one. That of one
// that stays is on the disk then. A lock sees to it that one at a time writes.
func (r *Record) writeFile(path string, data []byte) error {
	return safepath.File{Path: path, Synced: !r.Ephemeral, Alone: true}.Write(data)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

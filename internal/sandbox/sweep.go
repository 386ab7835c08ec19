package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/safepath"
	"golang.org/x/sys/unix"
)

// Remove deletes the sandbox and releases the lock. The folder leaves the store first; then purge
// deletes the tree. A nil purge is safepath.RemoveTree; with files of other uids it has to enter a
// user namespace. If purge fails, the next sweep tries again.
func (l *Lock) Remove(purge func(tree string) error) error {
	defer l.Release()
	sb := l.sb
	if l.fd.Load() < 0 {
		return fmt.Errorf("remove sandbox %s: its lock was released", sb.Name)
	}
	unlock, err := sb.store.lock()
	if err != nil {
		return sb.store.hint(err)
	}
	d, err := sb.store.discard(filepath.Base(sb.dir))
	unlock()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s", ErrNotFound, sb.Name)
	}
	if err == nil {
		// Else a power cut could bring back the folder, half deleted.
		err = errors.Join(sb.sync(sb.store.dir), d.delete(purge))
	}
	if err != nil {
		return fmt.Errorf("remove sandbox %s: %w", sb.Name, sb.store.hint(err))
	}
	return nil
}

// Remove takes the lock and deletes the sandbox, see Lock.Remove. It returns
// ErrRunning if the lock is held.
func (sb *Sandbox) Remove(purge func(tree string) error) error {
	lock, err := sb.Lock()
	if err != nil {
		return err
	}
	return lock.Remove(purge)
}

// Sweep removes what dead processes left: throw-away sandboxes, folders half made or half deleted, and
// stale sockets. It deletes trees with purge like Lock.Remove, and goes on after an error.
func (s *Store) Sweep(purge func(tree string) error) error {
	entries, err := s.entries()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range entries {
		if !s.suspect(name) {
			continue
		}
		if err := s.sweep(name, purge); err != nil {
			errs = append(errs, fmt.Errorf("sweep %s: %w", filepath.Join(s.dir, name), err))
		}
	}
	return errors.Join(errs...)
}

// suspect looks, without a lock, whether an entry may have to be swept.
func (s *Store) suspect(name string) bool {
	dir := filepath.Join(s.dir, name)
	switch {
	case strings.HasPrefix(name, newPrefix), strings.HasPrefix(name, gonePrefix):
		return true
	case !validID(name):
		return false
	case bornEphemeral(name):
		return !running(dir)
	}
	return hasAny(dir, socketName, debtName) && !running(dir) // what only a running sandbox should have
}

func (s *Store) sweep(name string, purge func(string) error) error {
	d, err := s.condemn(name)
	if err != nil || d == nil {
		return err
	}
	return d.delete(purge)
}

// condemn decides under the store lock what becomes of a suspect. It returns what to delete, or nil.
func (s *Store) condemn(name string) (*discarded, error) {
	if strings.HasPrefix(name, gonePrefix) {
		// Already out of everybody's way, so no need for the store lock.
		return claim(filepath.Join(s.dir, name)), nil
	}
	unlock, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if validID(name) {
		dir := filepath.Join(s.dir, name)
		if running(dir) {
			return nil, nil
		}
		if !s.abandoned(name) {
			if s.Mend != nil {
				if err := s.Mend(dir); err != nil {
					return nil, err
				}
			}
			for _, name := range []string{debtName, socketName} {
				if err := ignoreMissing(os.Remove(filepath.Join(dir, name))); err != nil {
					return nil, err
				}
			}
			return nil, nil
		}
	}
	d, err := s.discard(name)
	return d, ignoreMissing(err)
}

// abandoned says whether a stopped sandbox is a throw-away. One whose record is empty or missing was
// caught by a power cut: only throw-aways do not wait for the disk.
func (s *Store) abandoned(id string) bool {
	if !bornEphemeral(id) {
		return false
	}
	sb, err := s.load(id)
	if err != nil {
		return errors.Is(err, errEmpty) || errors.Is(err, fs.ErrNotExist)
	}
	return sb.Ephemeral
}

// A discarded folder has its .gone- name and waits to be deleted, under a flock, so that the next
// command leaves a slow deletion alone. Safety does not need the lock.
type discarded struct {
	path string
	lock *os.File // nil if the folder cannot be opened
}

// discard gives a folder its .gone- name. Callers hold the store lock.
func (s *Store) discard(name string) (*discarded, error) {
	from := filepath.Join(s.dir, name)
	d := claim(from) // before the rename: no sweep gets in between
	if d == nil {
		d = &discarded{}
	}
	d.path = filepath.Join(s.dir, gonePrefix+strings.TrimPrefix(name, newPrefix)+"-"+randomText(idLength))
	if err := os.Rename(from, d.path); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// claim locks a folder to delete. It is nil if the folder is locked or gone.
func claim(path string) *discarded {
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &discarded{path: path}
	}
	if errors.Is(unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
		dir.Close()
		return nil
	}
	return &discarded{path, dir}
}

func (d *discarded) delete(purge func(string) error) error {
	defer d.close()
	if purge == nil {
		purge = safepath.RemoveTree
	}
	return purge(d.path)
}

func (d *discarded) close() {
	if d.lock != nil {
		d.lock.Close()
	}
}

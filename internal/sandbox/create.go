package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
	"golang.org/x/sys/unix"
)

// ErrExists is for a name that another sandbox has.
var ErrExists = errors.New("a sandbox of this name exists")

// Create makes a sandbox and returns it with its lock held, so that a throw-away always has an owner.
//
// The store picks the id, and a name and the time of creation where rec has none. A name in use is
// ErrExists, an impossible one ErrName. A sandbox that stays is on disk when Create returns.
func (s *Store) Create(rec Record) (*Sandbox, *Lock, error) {
	if rec.Name != "" {
		if err := CheckName(rec.Name); err != nil {
			return nil, nil, err
		}
	}
	sb, lock, err := s.create(rec)
	if errors.Is(err, ErrExists) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("no sandbox can be made: %w", s.hint(err))
	}
	return sb, lock, nil
}

func (s *Store) create(rec Record) (*Sandbox, *Lock, error) {
	if err := s.make(); err != nil {
		return nil, nil, err
	}
	unlock, err := s.lock()
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	if err := s.identify(&rec); err != nil {
		return nil, nil, err
	}
	rec.Version = recordVersion
	if rec.Created.IsZero() {
		rec.Created = time.Now()
	}
	rec.Created = rec.Created.UTC().Round(0) // as it will be read back
	if err := s.placeTree(&rec); err != nil {
		return nil, nil, err
	}

	sb := &Sandbox{Record: rec, store: s, dir: filepath.Join(s.dir, rec.ID)}
	lock, err := sb.build()
	if err != nil {
		return nil, nil, err
	}
	return sb, lock, nil
}

// identify picks an id, and a name if there is none. Callers hold the store lock.
func (s *Store) identify(rec *Record) error {
	// A throw-away comes and goes in milliseconds and cannot read all records
	// for its name. Four characters of its id make the name its own but for one
	// chance in ten thousand million, which Find would report as ambiguous.
	if rec.Ephemeral && rec.Name == "" {
		rec.ID = newID(true) // if it exists, moving the folder into place fails
		rec.Name = newName(nil) + "-" + rec.ID[idLength-4:]
		return nil
	}
	taken, err := s.taken("")
	if err != nil {
		return err
	}
	for rec.ID = newID(rec.Ephemeral); taken[rec.ID]; {
		rec.ID = newID(rec.Ephemeral)
	}
	if rec.Name == "" {
		rec.Name = newName(taken)
	}
	if taken[rec.Name] {
		return ui.Hint(fmt.Errorf("%w: %s", ErrExists, rec.Name), "use it with 'coffer exec -m %s', or choose another name", rec.Name)
	}
	return nil
}

// placeTree sets the path of a worktree: in the sandbox's folder, under the sandbox's name, which
// editors show.
func (s *Store) placeTree(rec *Record) error {
	if rec.Workspace.Mode != WorkspaceTree || rec.Workspace.Path != "" {
		return nil
	}
	dir, err := filepath.EvalSymlinks(s.dir)
	if err != nil {
		return err
	}
	rec.Workspace.Path = filepath.Join(dir, rec.ID, treeName, rec.Name)
	return nil
}

// build fills the folder under its .new- name and moves it into place.
func (sb *Sandbox) build() (_ *Lock, err error) {
	data, err := sb.encode()
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(sb.store.dir, newPrefix+sb.ID)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	var lock *Lock
	defer func() {
		if err != nil {
			lock.Release()
			_ = safepath.RemoveTree(folder) // what is left of a draft, the sweep takes
		}
	}()
	if lock, err = sb.takeLock(folder); err != nil {
		return nil, err
	}
	if err = sb.writeFile(filepath.Join(folder, recordName), data); err != nil {
		return nil, err
	}
	if err = sb.sync(folder); err != nil {
		return nil, err
	}
	if err = os.Rename(folder, sb.dir); err != nil {
		return nil, err
	}
	folder = sb.dir
	return lock, sb.sync(sb.store.dir)
}

// sync makes renames in a directory survive a power cut, for a sandbox that stays.
func (sb *Sandbox) sync(dir string) error {
	if sb.Ephemeral {
		return nil
	}
	return safepath.SyncDir(dir)
}

// taken collects the names and ids of all other sandboxes, because an id must not become a name.
// Callers hold the store lock.
func (s *Store) taken(except string) (map[string]bool, error) {
	entries, err := s.entries()
	if err != nil {
		return nil, err
	}
	taken := make(map[string]bool, 2*len(entries))
	for _, id := range entries {
		if !validID(id) || id == except {
			continue
		}
		taken[id] = true
		data, err := safepath.ReadOwn(filepath.Join(s.dir, id, recordName), maxRecord)
		if err != nil {
			continue // removed this moment, or broken: List reports it
		}
		// Only the name, and from a newer coffer's record as well.
		var rec struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(data, &rec) == nil && rec.Name != "" {
			taken[rec.Name] = true
		}
	}
	return taken, nil
}

// takeLock opens the lock file in dir and takes it. Callers hold the store lock.
func (sb *Sandbox) takeLock(dir string) (*Lock, error) {
	path := filepath.Join(dir, lockName)
	fd, err := openFile(path, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return nil, err
	}
	return sb.newLock(fd)
}

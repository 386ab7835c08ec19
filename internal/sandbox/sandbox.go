package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cofferhq/coffer/internal/safepath"
)

const (
	recordName = "sandbox.json"
	lockName   = "lock"
	socketName = "control.sock"
	debtName   = "unsettled"
	homeName   = "home"
	layersName = "layers"
	logsName   = "logs"
	treeName   = "workspace"
	gitName    = "git"
	// includeName is where git directories of other repositories are.
	includeName = "include"
)

// A Sandbox is a record and its folder. The fields of the record, except the id, may be changed and
// saved.
type Sandbox struct {
	Record

	store *Store
	dir   string
}

// Dir is the sandbox's folder.
func (sb *Sandbox) Dir() string { return sb.dir }

// Home, Layers and Logs are made by whoever first has something to put there:
// each new folder costs a throw-away as much as all the rest of its creation.

// Home is the host's path of the home directory inside.
func (sb *Sandbox) Home() string { return filepath.Join(sb.dir, homeName) }

// Layers is the folder of the writable layers of its root file system.
func (sb *Sandbox) Layers() string { return filepath.Join(sb.dir, layersName) }

// SetupMark is the file that is there while the sandbox is not set up.
func (sb *Sandbox) SetupMark() string { return filepath.Join(sb.Dir(), "setting-up") }

// Logs is the folder of everything that is written down about it.
func (sb *Sandbox) Logs() string { return filepath.Join(sb.dir, logsName) }

// HasGit says whether it has git directories of its own; see package git.
func (sb *Sandbox) HasGit() bool {
	return hasAny(sb.dir, gitName, includeName)
}

// Owe records that something outside the folder has to be undone when the sandbox stops. If the
// process dies before Settle, Sweep calls Mend.
func (sb *Sandbox) Owe() error {
	return os.WriteFile(filepath.Join(sb.dir, debtName), nil, 0o600)
}

// Settle is Owe's counterpart.
func (sb *Sandbox) Settle() error {
	return ignoreMissing(os.Remove(filepath.Join(sb.dir, debtName)))
}

// Save replaces the record. The caller holds the lock of the sandbox. The error is ErrExists for a
// name in use, and ErrNotFound for a removed sandbox.
func (sb *Sandbox) Save() error {
	if err := sb.save(); err != nil {
		return fmt.Errorf("save sandbox %s: %w", filepath.Base(sb.dir), sb.store.hint(err))
	}
	return nil
}

func (sb *Sandbox) save() error {
	id := filepath.Base(sb.dir)
	if sb.ID != id {
		return fmt.Errorf("its id cannot become %q", sb.ID)
	}
	sb.Version = recordVersion
	data, err := sb.encode()
	if err != nil {
		return err
	}
	unlock, err := sb.store.lock()
	if err != nil {
		return err
	}
	defer unlock()

	old, err := sb.store.load(id)
	if errors.Is(err, ErrNotFound) {
		return err
	}
	if err != nil || old.Name != sb.Name {
		taken, err := sb.store.taken(id)
		if err != nil {
			return err
		}
		if taken[sb.Name] {
			return fmt.Errorf("%w: %s", ErrExists, sb.Name)
		}
	}

	if err := sb.writeFile(filepath.Join(sb.dir, recordName), data); err != nil {
		return err
	}
	return sb.sync(sb.dir)
}

// load reads one sandbox. The error is ErrNotFound without a folder, and a *BrokenError without a good
// record in it.
func (s *Store) load(id string) (*Sandbox, error) {
	dir := filepath.Join(s.dir, id)
	data, err := safepath.ReadOwn(filepath.Join(dir, recordName), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		// Without the folder it was removed, perhaps while we looked.
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil, ErrNotFound
		}
		return nil, &BrokenError{ID: id, Dir: dir, Err: fmt.Errorf("is missing: %w", fs.ErrNotExist)}
	}
	if errors.Is(err, safepath.ErrTooLarge) {
		return nil, &BrokenError{ID: id, Dir: dir, Err: fmt.Errorf("is larger than %d bytes", maxRecord)}
	}
	if err != nil {
		return nil, &BrokenError{ID: id, Dir: dir, Err: fmt.Errorf("cannot be read: %w", errors.Unwrap(err))}
	}
	rec, err := decodeRecord(data)
	if err != nil {
		return nil, &BrokenError{ID: id, Dir: dir, Err: err}
	}
	if rec.ID != id {
		return nil, &BrokenError{ID: id, Dir: dir, Err: fmt.Errorf("belongs to sandbox %s", rec.ID)}
	}
	return &Sandbox{Record: rec, store: s, dir: dir}, nil
}

// maxSocketPath stays below what a socket address holds: 108 bytes on Linux, 104 on macOS.
const maxSocketPath = 100

// Socket returns a path of control.sock to listen on or connect to. Usually it is
// the file's own; where that is too long for a socket address, it is a detour
// that works until release is called and only in this process. A listener must
// be closed before release, because it unlinks the path it was given.
func (sb *Sandbox) Socket() (path string, release func(), err error) {
	path = filepath.Join(sb.dir, socketName)
	if len(path) < maxSocketPath {
		return path, func() {}, nil
	}
	dir, release, err := shortDir(sb.dir)
	if err != nil {
		return "", nil, fmt.Errorf("find a short path for %s: %w", path, err)
	}
	return filepath.Join(dir, socketName), release, nil
}

// hasAny says whether a folder has something by one of the names.
func hasAny(dir string, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	})
}

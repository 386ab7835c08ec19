package secret

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// lock makes this process the only writer. What another one left half written goes.
func (v *Vault) lock() (unlock func(), err error) {
	if err := safepath.Directory(v.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a place for the vault: %w", err)
	}
	info, err := os.Lstat(v.dir)
	if err != nil {
		return nil, fmt.Errorf("make a place for the vault: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return nil, ui.Error(fmt.Sprintf("the vault's directory %s is open to other users (%s)", v.dir, info.Mode()), "close it: chmod 700 "+v.dir)
	}
	f, err := os.OpenFile(filepath.Join(v.dir, "lock"), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the vault: %w", err)
	}
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	for _, name := range []string{identityName, fileName} {
		if err == nil {
			err = v.remove(name + safepath.Suffix)
		}
	}
	if err != nil {
		err = fmt.Errorf("lock the vault: %w", err)
	} else {
		err = v.migrate()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// replace replaces a file, for good.
func (v *Vault) replace(name string, data []byte) error {
	if err := (safepath.File{Path: filepath.Join(v.dir, name), Synced: true, Alone: true}).Write(data); err != nil {
		return fmt.Errorf("write the vault: %w", err)
	}
	return v.sync()
}

func (v *Vault) remove(name string) error {
	err := os.Remove(filepath.Join(v.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the vault: %w", err)
	}
	return v.sync()
}

// sync makes renames survive a power cut. File systems that cannot have nothing to sync.
func (v *Vault) sync() error {
	d, err := os.Open(v.dir)
	if err != nil {
		return fmt.Errorf("write the vault: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("write the vault: %w", err)
	}
	return nil
}

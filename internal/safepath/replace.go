package safepath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Suffix ends the name of the draft of a [File] that is written by one at a time.
const Suffix = ".new"

// A File is a file of ours that is to be replaced. What is written goes into a draft beside it,
// and takes its place by a rename once it is whole.
type File struct {
	Path string
	// Mode is what the file will have, whatever the umask says; 0600 if it is 0.
	Mode fs.FileMode
	// Synced waits until the disk has the content before the rename. Without it, a power cut
	// may leave an empty file.
	Synced bool
	// Alone says that nobody else writes it meanwhile, by a lock for instance. The draft then
	// has one name, the file's with [Suffix], and replaces what a killed process left there.
	// Otherwise the last of several writers wins.
	Alone bool
}

// Write replaces the file, or leaves it as it is and returns why.
func (f File) Write(data []byte) error {
	d, err := f.open()
	if err != nil {
		return err
	}
	_, err = d.Write(data)
	if err == nil && f.Mode != 0 && f.Mode != 0o600 {
		err = d.Chmod(f.Mode)
	}
	if err == nil && f.Synced {
		err = d.Sync()
	}
	// Network file systems report a full disk only when it is closed.
	if e := d.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(d.Name(), f.Path)
	}
	if err != nil {
		_ = os.Remove(d.Name())
	}
	return err
}

// open makes the draft, which nobody else has open.
func (f File) open() (*os.File, error) {
	if !f.Alone {
		return os.CreateTemp(filepath.Dir(f.Path), "."+filepath.Base(f.Path)+Suffix+"-*") // mode 0600
	}
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	d, err := os.OpenFile(f.Path+Suffix, flags, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if err := os.Remove(f.Path + Suffix); err != nil {
			return nil, err
		}
		d, err = os.OpenFile(f.Path+Suffix, flags, 0o600)
	}
	return d, err
}

// SyncDir makes renames in a directory survive a power cut.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	// File systems that cannot sync a directory say EINVAL; they have nothing to sync.
	if err := dir.Sync(); !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

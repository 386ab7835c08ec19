package secret

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// fileName is the vault's name in its directory, and OldName what it had before it was an age file.
const (
	fileName = "secrets.age"
	OldName  = "secrets"
)

// maxFile bounds the vault, and each file beside it.
const maxFile = 1 << 20

// Dir is where the vault is: beside the sandboxes, where none of them sees it.
func Dir() (string, error) {
	data, err := safepath.UserData()
	return filepath.Join(data, "vault"), err
}

// ReadLabel reads the label of the vault in a directory. One that is not there is empty.
func ReadLabel(dir string) (Label, error) {
	path, old := filepath.Join(dir, fileName), filepath.Join(dir, OldName)
	// An old vault that is being replaced is found by the third look at the latest.
	for _, p := range []string{path, old, path} {
		file, err := readOwn(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if p == old {
			l, _, _, err := splitOld(file)
			return l, problem(p, err)
		}
		l, err := parseFile(file)
		return l, problem(p, err)
	}
	return nil, nil
}

// Problem says what is wrong with a vault's file.
func problem(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrVersion):
		return ui.Error(fmt.Sprintf("the vault %s %s", path, err), "use that one: see 'coffer version'")
	}
	return ui.Error(fmt.Sprintf("the vault %s %s", path, err), "put a copy of it back, or remove it and set your secrets again")
}

// readOwn reads a file of the vault. Only the user may have been able to read or write it.
func readOwn(path string) ([]byte, error) {
	// A link could lead anywhere, and a pipe would keep us waiting.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, ui.Error(fmt.Sprintf("%s of the vault is a symbolic link", path), "put the file itself there")
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = cmp.Or(safepath.Dangling(path), err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the vault: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the vault: %w", err)
	}
	stat, _ := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return nil, ui.Error(fmt.Sprintf("%s of the vault is no file", path), "remove it")
	case stat != nil && int(stat.Uid) != os.Geteuid():
		return nil, ui.Error(fmt.Sprintf("%s of the vault belongs to another user", path), "run coffer as the user whose vault it is, or set XDG_DATA_HOME to a directory of yours")
	case info.Mode().Perm()&0o077 != 0:
		return nil, ui.Error(fmt.Sprintf("%s of the vault is open to other users (mode %04o)", path, info.Mode().Perm()),
			"close it, if you trust what is in it: chmod 600 "+path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = ui.Error(fmt.Sprintf("%s of the vault is larger than any vault", path), "put a copy of it back, or remove it")
	}
	return data, err
}

package secret

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"filippo.io/age"
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
	f, info, err := safepath.OpenOwn(path)
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, ui.Error(fmt.Sprintf("%s of the vault is a symbolic link", path), "put the file itself there")
	case errors.Is(err, safepath.ErrNotRegular):
		return nil, ui.Error(fmt.Sprintf("%s of the vault is no file", path), "remove it")
	case errors.Is(err, fs.ErrNotExist):
		err = cmp.Or(safepath.Dangling(path), err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the vault: %w", err)
	}
	defer f.Close()
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return nil, ui.Error(fmt.Sprintf("%s of the vault belongs to another user", path), "run coffer as the user whose vault it is, or set XDG_DATA_HOME to a directory of yours")
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, ui.Error(fmt.Sprintf("%s of the vault is open to other users (mode %04o)", path, info.Mode().Perm()),
			"close it, if you trust what is in it: chmod 600 "+path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = ui.Error(fmt.Sprintf("%s of the vault is larger than any vault", path), "put a copy of it back, or remove it")
	}
	return data, err
}

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

func (v *Vault) sync() error {
	if err := safepath.SyncDir(v.dir); err != nil {
		return fmt.Errorf("write the vault: %w", err)
	}
	return nil
}

// labelled puts the label into the header, as a recipient that nobody is.
type labelled []byte

func (l labelled) Wrap([]byte) ([]*age.Stanza, error) {
	return []*age.Stanza{{Type: stanza, Args: []string{stanzaVersion}, Body: l}}, nil
}

func encrypt(plain []byte, to ...age.Recipient) ([]byte, error) {
	var b bytes.Buffer
	w, err := age.Encrypt(&b, to...)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

var errNotOpened = errors.New("does not open")

// unseal is the reverse. What was changed, and another identity, look the same.
func unseal(file []byte, id age.Identity) ([]byte, error) {
	r, err := age.Decrypt(bytes.NewReader(file), id)
	if err != nil {
		return nil, errNotOpened
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return nil, errNotOpened
	}
	return plain, nil
}

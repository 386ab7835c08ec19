package secret

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"filippo.io/age"
	"github.com/cofferhq/coffer/internal/ui"
)

// ErrNone is for a vault that was never made.
var ErrNone = ui.Error("you keep no secrets", "make a vault with 'coffer secret set NAME'")

// A Vault is the file of secrets in a directory, with what is beside it.
type Vault struct {
	dir string

	mu sync.Mutex
	id *age.X25519Identity // once it was needed
}

// At is the vault in a directory, which need not be there yet.
func At(dir string) *Vault { return &Vault{dir: dir} }

// Mine is the user's.
func Mine() (*Vault, error) {
	dir, err := Dir()
	return At(dir), err
}

func (v *Vault) Dir() string { return v.dir }

// Label says what is in it, which is nothing if it was never made.
func (v *Vault) Label() (Label, error) { return ReadLabel(v.dir) }

// values are what is encrypted. Not all of them are text.
type values map[string][]byte

// Get returns the value of a secret.
func (v *Vault) Get(name string) ([]byte, error) {
	_, all, err := v.open()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	value, ok := all[name]
	if !ok {
		return nil, Unknown(name)
	}
	return value, nil
}

// Unknown is the error about a secret that is not there.
func Unknown(name string) error {
	return ui.Error("there is no secret "+name, "see 'coffer secret ls', or put it there: coffer secret set "+name)
}

// CheckValue wants what can be the value of a variable.
func CheckValue(value []byte) error {
	switch {
	case len(value) == 0:
		return errors.New("the value is empty")
	case len(value) > MaxValue:
		return fmt.Errorf("the value has more than %d bytes", MaxValue)
	case slices.Contains(value, 0):
		return errors.New("the value has a NUL in it, which no variable can have")
	}
	return nil
}

// Made tells how the key of a vault that was just made is kept. Why is why not in the
// keyring.
type Made struct {
	Keeping Keeping
	Why     error
}

// Set puts a secret into the vault, in place of what it was before. If that made the vault,
// it says how.
func (v *Vault) Set(name string, value []byte) (made *Made, err error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := CheckValue(value); err != nil {
		return nil, err
	}
	unlock, err := v.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	label, all, err := v.open()
	if errors.Is(err, fs.ErrNotExist) {
		all = values{}
		made, err = v.make()
	}
	if err != nil {
		return nil, err
	}
	e := Entry{Name: name, Set: time.Now().UTC().Truncate(time.Second)}
	if i, ok := label.Find(name); ok {
		label[i] = e
	} else {
		label = slices.Insert(label, i, e)
	}
	all[name] = value
	return made, v.write(label, all)
}

// make sees to it that there is an identity.
func (v *Vault) make() (*Made, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	id, how, err := v.left()
	made := &Made{Keeping: how}
	if id == nil && err == nil {
		id, made.Keeping, made.Why, err = v.choose()
	}
	v.id = id
	return made, err
}

// Remove takes a secret out.
func (v *Vault) Remove(name string) error {
	if l, err := v.Label(); err != nil {
		return err
	} else if !l.Has(name) {
		return Unknown(name)
	}
	unlock, err := v.lock()
	if err != nil {
		return err
	}
	defer unlock()
	label, all, err := v.open()
	if err != nil {
		return err
	}
	i, ok := label.Find(name)
	if !ok {
		return Unknown(name)
	}
	delete(all, name)
	return v.write(slices.Delete(label, i, i+1), all)
}

func (v *Vault) write(label Label, all values) error {
	head, err := label.Bytes()
	if err != nil {
		return err
	}
	plain, err := json.Marshal(all)
	if err != nil {
		return err
	}
	file, err := encrypt(plain, labelled(head), v.id.Recipient())
	if err != nil {
		return err
	}
	if len(file) > maxFile {
		return ui.Error(fmt.Sprintf("the vault is full: it has at most %d bytes", maxFile), "remove what you do not need: coffer secret rm NAME")
	}
	return v.replace(fileName, file)
}

// open reads and decrypts all of it. The error is fs.ErrNotExist if there is none.
func (v *Vault) open() (Label, values, error) { return v.openWithin(patience) }

// openWithin is open for who cannot wait long for a keyring.
func (v *Vault) openWithin(wait time.Duration) (label Label, all values, err error) {
	path := filepath.Join(v.dir, fileName)
	file, err := v.read(path)
	if err != nil {
		return nil, nil, err
	}
	if label, err = parseFile(file); err != nil {
		return nil, nil, problem(path, err)
	}
	plain, err := v.unseal(file, wait)
	if errors.Is(err, errNotOpened) {
		how, _ := v.Keeping()
		return nil, nil, ui.Error(fmt.Sprintf("the vault %s does not open: it was damaged, or its key (%s) is another vault's", path, how),
			fmt.Sprintf("put a copy of it back, with its key; or remove %s and set your secrets again", v.dir))
	}
	if err != nil {
		return nil, nil, err
	}
	// The label was authenticated with the values, so they are of one piece.
	if err := json.Unmarshal(plain, &all); err != nil || len(all) != len(label) {
		return nil, nil, problem(path, errors.New("is damaged"))
	}
	return label, all, nil
}

// read reads the vault's file, which may have to be made of an old one.
func (v *Vault) read(path string) ([]byte, error) {
	file, err := readOwn(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if _, old := os.Lstat(filepath.Join(v.dir, OldName)); old != nil {
		return nil, err
	}
	unlock, err := v.lock()
	if err != nil {
		return nil, err
	}
	unlock()
	return readOwn(path)
}

// unseal decrypts with the identity that is known, or else with the one that is kept: the
// vault may be another one by now.
func (v *Vault) unseal(file []byte, wait time.Duration) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.id != nil {
		if plain, err := unseal(file, v.id); err == nil {
			return plain, nil
		}
	}
	id, err := v.load(wait)
	if err != nil {
		return nil, err
	}
	plain, err := unseal(file, id)
	if err == nil {
		v.id = id
	}
	return plain, err
}

var mine = sync.OnceValues(Mine)

// Lookup is the value of a secret of the user's, for a program's environment. The vault is
// read each time, for a secret may be changed while sandboxes run; its key only once.
func Lookup(name string) (string, error) {
	v, err := mine()
	if err != nil {
		return "", err
	}
	value, err := v.Get(name)
	return string(value), err
}

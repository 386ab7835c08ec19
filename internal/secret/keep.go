package secret

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"filippo.io/age"
	"github.com/cofferhq/coffer/internal/ui"
)

// Keeping is how the vault's key is kept.
type Keeping string

const (
	Keyring    Keeping = "keyring"    // by the keyring of the user's desktop
	File       Keeping = "file"       // in a file beside the vault
	Passphrase Keeping = "passphrase" // in such a file, closed by a passphrase
)

// Keepings are all of them.
var Keepings = []Keeping{Keyring, File, Passphrase}

// Means is what that is worth.
func (k Keeping) Means() string {
	switch k {
	case Keyring:
		return "its key is in your keyring: a copy of your files is not enough to read them"
	case File:
		return "its key is in a file beside it, readable by you only: whoever gets your files can read them"
	case Passphrase:
		return "its key is in a file beside it, closed by a passphrase that is expected in " + Variable
	}
	return string(k)
}

// Keeping says how the key of this vault is kept. That it is in the keyring follows from
// its being nowhere else.
func (v *Vault) Keeping() (Keeping, error) {
	f, err := readIdentity(v.dir)
	switch {
	case err != nil:
		return "", err
	case f != nil:
		return f.keeping(), nil
	}
	return Keyring, nil
}

// load finds the identity. A keyring may take so long.
func (v *Vault) load(wait time.Duration) (*age.X25519Identity, error) {
	// It may be on its way from one place to another, and is in the new one before it
	// leaves the old: the second look finds it.
	var ring error
	for range 2 {
		f, err := readIdentity(v.dir)
		if err != nil {
			return nil, err
		}
		if f != nil {
			return f.identity()
		}
		id, err := v.ofKeyring(wait)
		if err == nil {
			return id, nil
		}
		if ring = err; !errors.Is(err, errNotInKeyring) {
			break
		}
	}
	lost := fmt.Sprintf("if its key is lost, remove %s and set your secrets again", v.dir)
	if !errors.Is(ring, errNotInKeyring) {
		lost = "start or unlock your keyring; " + lost
	}
	return nil, ui.Error(fmt.Sprintf("the vault cannot be opened: there is no key beside it, and %s", ring), lost)
}

// left is the identity in a file that somebody made who was interrupted; nil if there is none.
func (v *Vault) left() (*age.X25519Identity, Keeping, error) {
	f, err := readIdentity(v.dir)
	if f == nil || err != nil {
		return nil, "", err
	}
	id, err := f.identity()
	return id, f.keeping(), err
}

// choose makes an identity and puts it where it is kept best. why says why not in the keyring.
func (v *Vault) choose() (id *age.X25519Identity, how Keeping, why error, err error) {
	if os.Getenv(Variable) != "" {
		how = Passphrase
	} else if id, err := v.ofKeyring(trial); err == nil {
		return id, Keyring, nil, nil // left by somebody who was interrupted
	} else if how, why = File, err; errors.Is(err, errNotInKeyring) {
		if id, why = v.create(Keyring); why == nil {
			return id, Keyring, nil, nil
		}
	}
	id, err = v.create(how)
	return id, how, why, err
}

// create makes an identity, kept as is said.
func (v *Vault) create(how Keeping) (*age.X25519Identity, error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, err
	}
	if how == Keyring {
		return id, toKeyring(v.dir, id.String(), trial)
	}
	return id, v.writeIdentity(id, how)
}

func (v *Vault) writeIdentity(id *age.X25519Identity, how Keeping) error {
	text, err := identityText(id, how)
	if err != nil {
		return err
	}
	return v.replace(identityName, text)
}

func (v *Vault) ofKeyring(wait time.Duration) (*age.X25519Identity, error) {
	text, err := fromKeyring(service, v.dir, wait)
	if err != nil {
		return nil, err
	}
	id, err := age.ParseX25519Identity(text)
	if err != nil {
		return nil, errNotInKeyring
	}
	return id, nil
}

// Move changes how the identity is kept. It stays the same.
func (v *Vault) Move(to Keeping) error {
	unlock, err := v.lock()
	if err != nil {
		return err
	}
	defer unlock()
	was, err := v.Keeping()
	if err != nil {
		return err
	}
	_, _, err = v.open() // with the identity that is to be moved
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNone
	}
	if err != nil {
		return err
	}
	id := v.id
	if to == Keyring {
		if err := toKeyring(v.dir, id.String(), patience); err != nil {
			return ui.Error(fmt.Sprintf("the key was not moved: %s", err), "start or unlock your keyring, or choose another place")
		}
		return v.remove(identityName)
	}
	if err := v.writeIdentity(id, to); err != nil || was != Keyring {
		return err
	}
	if err := outOfKeyring(v.dir); err != nil {
		return fmt.Errorf("the key is kept anew, but was not taken out of your keyring: %w", err)
	}
	return nil
}

// Status says in a sentence how many secrets there are and what protects them. They are
// read for it; a keyring may take only so long as it may when a vault is made.
func (v *Vault) Status() (string, error) {
	how, err := v.Keeping()
	if err != nil {
		return "", err
	}
	label, _, err := v.openWithin(trial)
	if errors.Is(err, fs.ErrNotExist) {
		return "", ErrNone
	}
	if err != nil {
		return "", err
	}
	number := fmt.Sprintf("%d secrets are", len(label))
	if len(label) == 1 {
		number = "1 secret is"
	}
	return fmt.Sprintf("%s in the vault %s; %s", number, v.dir, how.Means()), nil
}

// identityName is the file of the identity, if it is in a file: a line as age-keygen writes it, or
// an age file with that line which a passphrase opens. 'age -i' takes either.
const identityName = "identity"

// shortest is what a passphrase must have at least: who has the file can try many.
const shortest = 12

// workFactor is how much work it is to try a passphrase: 2^16 rounds of scrypt, which need 64 MB
// and about a fifth of a second. A variable for tests.
var workFactor = 16

// maxWorkFactor bounds the time that a file can cost.
const maxWorkFactor = 20

var errIdentity = errors.New("is damaged")

// An identityFile is what is in the file.
type identityFile struct {
	path string
	data []byte
}

func readIdentity(dir string) (*identityFile, error) {
	path := filepath.Join(dir, identityName)
	data, err := readOwn(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &identityFile{path, data}, err
}

func (f *identityFile) keeping() Keeping {
	if bytes.HasPrefix(f.data, []byte("age-encryption.org/")) {
		return Passphrase
	}
	return File
}

func (f *identityFile) identity() (*age.X25519Identity, error) {
	line := f.data
	if f.keeping() == Passphrase {
		passphrase := os.Getenv(Variable)
		if passphrase == "" {
			return nil, ui.Error("the vault is closed by a passphrase, which is expected in "+Variable, "export it; or open the vault where you have it, with 'coffer secret key file'")
		}
		id, err := age.NewScryptIdentity(passphrase)
		if err != nil {
			return nil, err
		}
		id.SetMaxWorkFactor(maxWorkFactor)
		if line, err = unseal(f.data, id); err != nil {
			return nil, ui.Error("what is in "+Variable+" is not the passphrase of the vault, or "+f.path+" is damaged", "export the one that the vault was made with")
		}
	}
	id, err := parseIdentity(line)
	if err != nil {
		return nil, ui.Error(fmt.Sprintf("the vault's key %s %s", f.path, err), "put a copy of it back; without it, remove "+filepath.Dir(f.path)+" and set your secrets again")
	}
	return id, nil
}

// parseIdentity reads what String writes, with a newline, and nothing else.
func parseIdentity(line []byte) (*age.X25519Identity, error) {
	text, ok := bytes.CutSuffix(line, []byte("\n"))
	id, err := age.ParseX25519Identity(string(text))
	if !ok || err != nil || id.String() != string(text) {
		return nil, errIdentity
	}
	return id, nil
}

// identityText is what is in a file for an identity.
func identityText(id *age.X25519Identity, how Keeping) ([]byte, error) {
	line := []byte(id.String() + "\n")
	if how == File {
		return line, nil
	}
	passphrase := os.Getenv(Variable)
	if len(passphrase) < shortest {
		return nil, ui.Error(fmt.Sprintf("a vault's passphrase has %d characters at least, and is expected in %s", shortest, Variable), "export one")
	}
	to, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return nil, err
	}
	to.SetWorkFactor(workFactor)
	return encrypt(line, to)
}

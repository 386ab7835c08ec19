package vault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cofferhq/coffer/internal/hint"
	"github.com/cofferhq/coffer/internal/secret"
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
		return "its key is in a file beside it, closed by a passphrase that is expected in " + secret.Variable
	}
	return string(k)
}

// Keeping says how the key of this vault is kept. That it is in the keyring follows from
// its being nowhere else.
func (v *Vault) Keeping() (Keeping, error) {
	k, err := readKeyfile(v.dir)
	switch {
	case err != nil:
		return "", err
	case k != nil:
		return k.keeping(), nil
	}
	return Keyring, nil
}

// loadKey finds the key. A keyring may take so long.
func (v *Vault) loadKey(wait time.Duration) ([]byte, error) {
	// It may be on its way from one place to another, and is in the new one before it
	// leaves the old: the second look finds it.
	var ring error
	for range 2 {
		k, err := readKeyfile(v.dir)
		if err != nil {
			return nil, err
		}
		if k != nil {
			return k.key(filepath.Join(v.dir, keyName))
		}
		key, err := fromKeyring(v.dir, wait)
		if err == nil {
			return key, nil
		}
		if ring = err; !errors.Is(err, errNotInKeyring) {
			break
		}
	}
	lost := fmt.Sprintf("if its key is lost, remove %s and set your secrets again", v.dir)
	if !errors.Is(ring, errNotInKeyring) {
		lost = "start or unlock your keyring; " + lost
	}
	return nil, hint.New(fmt.Sprintf("the vault cannot be opened: there is no key beside it, and %s", ring), lost)
}

// newKey makes a key and puts it where it is kept best. why says why not in the keyring.
func (v *Vault) newKey() (key []byte, how Keeping, why error, err error) {
	if os.Getenv(secret.Variable) != "" {
		how = Passphrase
	} else if key, err := fromKeyring(v.dir, trial); err == nil {
		return key, Keyring, nil, nil // left by somebody who was interrupted
	} else if how, why = File, err; errors.Is(err, errNotInKeyring) {
		how = Keyring
	}
	key = randomBytes(keySize)
	if how == Keyring {
		if why = toKeyring(v.dir, key, trial); why == nil {
			return key, how, nil, nil
		}
		how = File
	}
	return key, how, why, v.writeKeyfile(key, how)
}

func (v *Vault) writeKeyfile(key []byte, how Keeping) error {
	k, err := newKeyfile(key, how)
	if err != nil {
		return err
	}
	return v.replace(keyName, []byte(k.String()))
}

// Move changes how the key is kept. The key stays the same.
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
	_, _, err = v.open() // with the key that is to be moved
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNone
	}
	if err != nil {
		return err
	}
	key := v.key
	if to == Keyring {
		if err := toKeyring(v.dir, key, patience); err != nil {
			return hint.New(fmt.Sprintf("the key was not moved: %s", err), "start or unlock your keyring, or choose another place")
		}
		return v.remove(keyName)
	}
	if err := v.writeKeyfile(key, to); err != nil || was != Keyring {
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

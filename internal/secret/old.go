package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/ui"
)

// An old vault has the values in secret.OldName, encrypted by AES-256-GCM, and its key in oldKey
// or in the keyring, under oldService:
//
//	coffer vault key 1 plain KEY
//	coffer vault key 1 passphrase ROUNDS SALT SEALED
const (
	oldKey     = "key"
	oldMagic   = "coffer vault key 1 "
	oldService = "coffer-vault"
	// kept is added to the names of the old files, once there is a new vault.
	kept = ".v1"
)

// migrate makes a vault of an old one, and puts that aside. The caller has the lock.
func (v *Vault) migrate() error {
	path := filepath.Join(v.dir, OldName)
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(v.dir, fileName)); errors.Is(err, fs.ErrNotExist) {
		label, all, how, err := v.openOld(path)
		if err == nil {
			err = v.makeAs(how)
		}
		if err == nil {
			err = v.write(label, all)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range []string{oldKey, OldName} {
		if err := os.Rename(filepath.Join(v.dir, name), filepath.Join(v.dir, name+kept)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("put the old vault aside: %w", err)
		}
	}
	return v.sync()
}

// makeAs makes an identity that is kept as the old key was.
func (v *Vault) makeAs(how Keeping) error {
	id, _, err := v.left()
	if id == nil && err == nil {
		id, err = v.create(how)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.id = id
	return err
}

func (v *Vault) openOld(path string) (label Label, all values, how Keeping, err error) {
	file, err := readOwn(path)
	if err != nil {
		return nil, nil, "", err
	}
	label, head, sealed, err := splitOld(file)
	if err != nil {
		return nil, nil, "", problem(path, err)
	}
	key, how, err := v.oldKey()
	if err != nil {
		return nil, nil, "", err
	}
	plain, err := openGCM(key, sealed, head)
	if err == nil {
		err = json.Unmarshal(plain, &all)
	}
	if err != nil || len(all) != len(label) {
		return nil, nil, "", ui.Error(fmt.Sprintf("the vault %s does not open: it was damaged, or its key (%s) is another vault's", path, how),
			fmt.Sprintf("put a copy of it back, with its key; or remove %s and set your secrets again", v.dir))
	}
	return label, all, how, nil
}

func (v *Vault) oldKey() ([]byte, Keeping, error) {
	path := filepath.Join(v.dir, oldKey)
	data, err := readOwn(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err := fromKeyring(oldService, v.dir, patience)
		if err != nil {
			return nil, "", ui.Error(fmt.Sprintf("the vault cannot be opened: there is no key beside it, and %s", err), "start or unlock your keyring")
		}
		key, err := base64.StdEncoding.DecodeString(text)
		return key, Keyring, err
	}
	if err != nil {
		return nil, "", err
	}
	fields := strings.Fields(strings.TrimPrefix(string(data), oldMagic))
	decode := func(s string) []byte {
		b, _ := base64.StdEncoding.DecodeString(s)
		return b
	}
	switch {
	case len(fields) == 2 && fields[0] == "plain":
		return decode(fields[1]), File, nil
	case len(fields) == 4 && fields[0] == "passphrase":
		key, err := unlockOld(fields[1], decode(fields[2]), decode(fields[3]))
		return key, Passphrase, err
	}
	return nil, "", ui.Error(fmt.Sprintf("the vault's key %s is damaged", path), "put a copy of it back; without it, remove "+v.dir+" and set your secrets again")
}

func unlockOld(rounds string, salt, sealed []byte) ([]byte, error) {
	passphrase := os.Getenv(Variable)
	if passphrase == "" {
		return nil, ui.Error("the vault is closed by a passphrase, which is expected in "+Variable, "export it")
	}
	n, err := strconv.Atoi(rounds)
	if err != nil || n < 1 || n > 20_000_000 {
		return nil, errors.New("the vault's key is damaged")
	}
	from, err := pbkdf2.Key(sha256.New, passphrase, salt, n, 32)
	if err != nil {
		return nil, err
	}
	key, err := openGCM(from, sealed, []byte(oldMagic))
	if err != nil {
		return nil, ui.Error("what is in "+Variable+" is not the passphrase of the vault", "export the one that the vault was made with")
	}
	return key, nil
}

func openGCM(key, sealed, head []byte) ([]byte, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	a, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return a.Open(nil, nil, sealed, head)
}

package secret

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"filippo.io/age"
	"github.com/cofferhq/coffer/internal/ui"
)

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

// readIdentity returns nil if there is none.
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

// identity opens it.
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

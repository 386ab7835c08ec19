package vault

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/hint"
	"github.com/cofferhq/coffer/internal/secret"
)

// keyName is the file of the key, if it is in a file. It is one line:
//
//	coffer vault key 1 plain KEY
//	coffer vault key 1 passphrase ROUNDS SALT SEALED
const (
	keyName  = "key"
	keyMagic = "coffer vault key 1 "
)

// shortest is what a passphrase must have at least: who has the file can try many.
const shortest = 12

// maxRounds bounds the time that a file can cost.
const maxRounds = 20_000_000

const saltSize = 16

// keyfile is what is in the file.
type keyfile struct {
	plain  []byte // the key, or
	sealed []byte // the key, closed by the passphrase
	salt   []byte
	rounds int
}

func (k *keyfile) keeping() Keeping {
	if k.plain != nil {
		return File
	}
	return Passphrase
}

var errKeyfile = errors.New("is damaged")

// parseKeyfile reads what String writes, and nothing else.
func parseKeyfile(data []byte) (*keyfile, error) {
	rest, ok := strings.CutPrefix(string(data), keyMagic)
	if !ok || len(data) > 1000 {
		return nil, errKeyfile
	}
	var k keyfile
	var bad bool
	bytes := func(s string, size int) []byte {
		b, err := base64.StdEncoding.Strict().DecodeString(s)
		bad = bad || err != nil || len(b) != size
		return b
	}
	switch f := strings.Split(strings.TrimSuffix(rest, "\n"), " "); {
	case len(f) == 2 && f[0] == "plain":
		k.plain = bytes(f[1], keySize)
	case len(f) == 4 && f[0] == "passphrase":
		var err error
		k.rounds, err = strconv.Atoi(f[1])
		bad = err != nil || k.rounds < 1 || k.rounds > maxRounds
		k.salt, k.sealed = bytes(f[2], saltSize), bytes(f[3], keySize+28)
	default:
		bad = true
	}
	if bad || k.String() != string(data) {
		return nil, errKeyfile
	}
	return &k, nil
}

func (k *keyfile) String() string {
	text := base64.StdEncoding.EncodeToString
	if k.plain != nil {
		return keyMagic + "plain " + text(k.plain) + "\n"
	}
	return fmt.Sprintf("%spassphrase %d %s %s\n", keyMagic, k.rounds, text(k.salt), text(k.sealed))
}

// key opens it.
func (k *keyfile) key(path string) ([]byte, error) {
	if k.plain != nil {
		return k.plain, nil
	}
	passphrase := os.Getenv(secret.Variable)
	if passphrase == "" {
		return nil, hint.New("the vault is closed by a passphrase, which is expected in "+secret.Variable, "export it; or open the vault where you have it, with 'coffer secret key file'")
	}
	from, err := stretch(passphrase, k.salt, k.rounds)
	if err != nil {
		return nil, err
	}
	key, err := unseal(from, k.sealed, []byte(keyMagic))
	if err != nil {
		return nil, hint.New("what is in "+secret.Variable+" is not the passphrase of the vault, or "+path+" is damaged", "export the one that the vault was made with")
	}
	return key, nil
}

// newKeyfile is a file for a key.
func newKeyfile(key []byte, how Keeping) (*keyfile, error) {
	if how == File {
		return &keyfile{plain: key}, nil
	}
	passphrase := os.Getenv(secret.Variable)
	if len(passphrase) < shortest {
		return nil, hint.New(fmt.Sprintf("a vault's passphrase has %d characters at least, and is expected in %s", shortest, secret.Variable), "export one")
	}
	k := &keyfile{salt: randomBytes(saltSize), rounds: rounds}
	from, err := stretch(passphrase, k.salt, k.rounds)
	if err == nil {
		k.sealed, err = seal(from, key, []byte(keyMagic))
	}
	return k, err
}

// readKeyfile returns nil if there is none.
func readKeyfile(dir string) (*keyfile, error) {
	path := filepath.Join(dir, keyName)
	data, err := secret.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	k, err := parseKeyfile(data)
	if err != nil {
		return nil, hint.New(fmt.Sprintf("the vault's key %s %s", path, err), "put a copy of it back; without it, remove "+dir+" and set your secrets again")
	}
	return k, nil
}

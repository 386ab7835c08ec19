package secret

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/zalando/go-keyring"
)

// makeOld writes a vault as coffer did before it had age.
func makeOld(t *testing.T, how Keeping, all values) *Vault {
	t.Helper()
	v := newVault(t)
	if err := os.MkdirAll(v.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	sealGCM := func(key, plain, head []byte) []byte {
		block, err := aes.NewCipher(key)
		if err != nil {
			t.Fatal(err)
		}
		a, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			t.Fatal(err)
		}
		return a.Seal(nil, nil, plain, head)
	}
	key, text := make([]byte, 32), base64.StdEncoding.EncodeToString
	rand.Read(key)
	switch how {
	case File:
		write(t, filepath.Join(v.dir, oldKey), []byte(oldMagic+"plain "+text(key)+"\n"))
	case Passphrase:
		salt := []byte("0123456789abcdef")
		from, err := pbkdf2.Key(sha256.New, os.Getenv(Variable), salt, 1000, 32)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(v.dir, oldKey), fmt.Appendf(nil, "%spassphrase 1000 %s %s\n", oldMagic, text(salt), text(sealGCM(from, key, []byte(oldMagic)))))
	case Keyring:
		if err := keyring.Set(oldService, v.dir, text(key)); err != nil {
			t.Fatal(err)
		}
	}
	head := []byte("coffer vault 1\n")
	for _, name := range []string{"A", "B"} {
		if all[name] != nil {
			head = fmt.Append(head, name, " 2026-11-15T19:00:00Z\n")
		}
	}
	head = append(head, '\n')
	plain, _ := json.Marshal(all)
	write(t, filepath.Join(v.dir, OldName), append(head, sealGCM(key, plain, head)...))
	return v
}

// An old vault is read, replaced when it is opened, and kept under another name.
func TestOldVault(t *testing.T) {
	for _, how := range Keepings {
		t.Run(string(how), func(t *testing.T) {
			if how == Keyring {
				withKeyring(t, nil)
			}
			if how == Passphrase {
				t.Setenv(Variable, "correct horse")
			}
			v := makeOld(t, how, values{"A": []byte("1"), "B": []byte("2")})
			old := read(t, filepath.Join(v.dir, OldName))
			if n := fmt.Sprint(names(t, v)); n != "[A B]" {
				t.Errorf("has %s", n)
			}
			if get(t, v, "A") != "1" || get(t, v, "B") != "2" || fmt.Sprint(names(t, v)) != "[A B]" {
				t.Error("another value")
			}
			if got, err := v.Keeping(); got != how || err != nil {
				t.Errorf("kept by %s, %v", got, err)
			}
			if !bytes.Equal(old, read(t, filepath.Join(v.dir, OldName+kept))) {
				t.Error("the old vault is not kept")
			}
			set(t, v, "A", "3")
			if get(t, v, "A") != "3" || get(t, v, "B") != "2" {
				t.Error("another value")
			}
		})
	}
}

// An old vault that does not open stays as it is; one whose replacing was interrupted is replaced.
func TestOldVaultStays(t *testing.T) {
	v := makeOld(t, File, values{"A": []byte("1")})
	path := filepath.Join(v.dir, OldName)
	old := read(t, path)
	for i := range old {
		damaged := bytes.Clone(old)
		damaged[i] ^= 1
		write(t, path, damaged)
		if _, err := At(v.dir).Get("A"); err == nil {
			t.Fatalf("byte %d: it opens", i)
		}
		if _, err := At(v.dir).Set("A", []byte("x")); err == nil || !bytes.Equal(damaged, read(t, path)) {
			t.Fatalf("byte %d: it is gone: %v", i, err)
		}
	}
	write(t, path, old)
	id, err := v.create(File) // and killed
	if err != nil {
		t.Fatal(err)
	}
	if get(t, v, "A") != "1" {
		t.Error("another value")
	}
	if again, err := At(v.dir).load(trial); err != nil || again.String() != id.String() {
		t.Errorf("another identity: %v", err)
	}
	// Killed before the old one was put aside.
	for _, name := range []string{oldKey, OldName} {
		if err := os.Rename(filepath.Join(v.dir, name+kept), filepath.Join(v.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	set(t, v, "A", "2")
	if get(t, v, "A") != "2" || !bytes.Equal(old, read(t, path+kept)) {
		t.Error("the old one was taken again, or lost")
	}
}

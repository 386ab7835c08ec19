package secret

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"filippo.io/age"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
	"github.com/zalando/go-keyring"
)

// TestMain has no keyring but the one of a test, and passphrases that are quickly tried.
func TestMain(m *testing.M) {
	os.Unsetenv(Variable)
	keyringHere = func() error { return errNoKeyring }
	workFactor = 10
	os.Exit(m.Run())
}

func withKeyring(t *testing.T, err error) {
	was := keyringHere
	keyringHere = func() error { return nil }
	t.Cleanup(func() { keyringHere = was })
	if err != nil {
		keyring.MockInitWithError(err)
	} else {
		keyring.MockInit()
	}
}

func newVault(t *testing.T) *Vault { return At(filepath.Join(t.TempDir(), "vault")) }

func set(t *testing.T, v *Vault, name, value string) *Made {
	t.Helper()
	made, err := v.Set(name, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// get reads as another process would: with nothing known.
func get(t *testing.T, v *Vault, name string) string {
	t.Helper()
	value, err := At(v.dir).Get(name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(value)
}

func names(t *testing.T, v *Vault) (list []string) {
	t.Helper()
	l, err := v.Label()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range l {
		list = append(list, e.Name)
	}
	return list
}

// wrong wants an error with these words and a hint, and not with the value.
func wrong(t *testing.T, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) || ui.HintOf(err) == "" || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v (hint: %q), want a sentence with %q", err, ui.HintOf(err), words)
	}
}

func TestSecrets(t *testing.T) {
	v := newVault(t)
	if _, err := v.Get("A"); err == nil || ui.HintOf(err) == "" {
		t.Errorf("of no vault: %v", err)
	}
	wrong(t, v.Remove("A"), "there is no secret A")
	if made := set(t, v, "B", "two"); made == nil || made.Keeping != File || !errors.Is(made.Why, errNoKeyring) {
		t.Errorf("made %+v", made)
	}
	odd := "one\nline \xff\"}"
	if made := set(t, v, "A", odd); made != nil {
		t.Errorf("made again: %+v", made)
	}
	set(t, v, "C", "x")
	set(t, v, "B", "2")
	if err := v.Remove("C"); err != nil {
		t.Error(err)
	}
	wrong(t, v.Remove("C"), "there is no secret C")
	if n := fmt.Sprint(names(t, v)); n != "[A B]" || get(t, v, "A") != odd || get(t, v, "B") != "2" {
		t.Errorf("has %s", n)
	}
	for _, bad := range []string{"", "1A", "A-B", "A B", "Ä", strings.Repeat("A", 201)} {
		if _, err := v.Set(bad, []byte("x")); err == nil {
			t.Errorf("took the name %q", bad)
		}
	}
	for _, bad := range []string{"", "a\x00b", strings.Repeat("x", MaxValue+1)} {
		if _, err := v.Set("A", []byte(bad)); err == nil || strings.Contains(err.Error(), "xxx") {
			t.Errorf("took %.10q: %v", bad, err)
		}
	}
	// Nothing of a value is to be seen, and everything is the user's alone.
	files, _ := os.ReadDir(v.dir)
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(v.dir, f.Name()))
		info, _ := f.Info()
		if err != nil || bytes.Contains(data, []byte("one")) || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f.Name(), info.Mode(), err)
		}
	}
	if len(files) != 3 {
		t.Errorf("files: %v", files)
	}
}

// A vault that is full, of number or of bytes, says so and stays as it is.
func TestFull(t *testing.T) {
	v := newVault(t)
	big := strings.Repeat("x", MaxValue)
	for i := 0; ; i++ {
		_, err := v.Set(fmt.Sprintf("N%d", i), []byte(big))
		if err != nil {
			wrong(t, err, "the vault is full")
			if n := names(t, v); len(n) != i || i < 10 {
				t.Errorf("has %d after %d", len(n), i)
			}
			break
		}
	}
	get(t, v, "N0")
}

// Two writers lose nothing of each other's.
func TestWriters(t *testing.T) {
	v := newVault(t)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 10 {
				if _, err := At(v.dir).Set(fmt.Sprintf("W%d_%d", w, i), []byte("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := names(t, v); len(n) != 40 {
		t.Errorf("has %d: %v", len(n), n)
	}
}

func TestKeyIsKept(t *testing.T) {
	t.Run("keyring", func(t *testing.T) {
		withKeyring(t, nil)
		v := newVault(t)
		if made := set(t, v, "A", "1"); made.Keeping != Keyring || made.Why != nil {
			t.Errorf("made %+v", made)
		}
		if _, err := os.Stat(filepath.Join(v.dir, identityName)); err == nil {
			t.Error("there is a file too")
		}
		if get(t, v, "A") != "1" {
			t.Error("another value")
		}
		// Another vault has another key.
		w := newVault(t)
		set(t, w, "A", "2")
		if get(t, v, "A") != "1" || get(t, w, "A") != "2" {
			t.Error("two vaults are one")
		}
		keyring.MockInit()
		_, err := At(v.dir).Get("A")
		wrong(t, err, "your keyring has no key for it")
		keyring.MockInitWithError(errors.New("is locked"))
		_, err = At(v.dir).Get("A")
		wrong(t, err, "is locked")
		_, err = At(v.dir).Set("B", []byte("x")) // must not make another key
		wrong(t, err, "is locked")
	})
	t.Run("broken keyring", func(t *testing.T) {
		withKeyring(t, errors.New("is broken"))
		v := newVault(t)
		if made := set(t, v, "A", "1"); made.Keeping != File || made.Why.Error() != "is broken" {
			t.Errorf("made %+v", made)
		}
		if get(t, v, "A") != "1" {
			t.Error("another value")
		}
	})
	t.Run("passphrase", func(t *testing.T) {
		v := newVault(t)
		t.Setenv(Variable, "short")
		_, err := v.Set("A", []byte("1"))
		wrong(t, err, "12 characters at least")
		t.Setenv(Variable, "correct horse")
		if made := set(t, v, "A", "1"); made.Keeping != Passphrase {
			t.Errorf("made %+v", made)
		}
		if get(t, v, "A") != "1" {
			t.Error("another value")
		}
		t.Setenv(Variable, "battery staple")
		_, err = At(v.dir).Get("A")
		wrong(t, err, "is not the passphrase of the vault")
		t.Setenv(Variable, "")
		_, err = At(v.dir).Get("A")
		wrong(t, err, "closed by a passphrase")
	})
}

// The key goes from every place to every other, and the secrets stay.
func TestMove(t *testing.T) {
	withKeyring(t, nil)
	v := newVault(t)
	if err := v.Move(File); !errors.Is(err, ErrNone) {
		t.Errorf("moved what is not there: %v", err)
	}
	set(t, v, "A", "1")
	t.Setenv(Variable, "correct horse")
	for _, from := range Keepings {
		for _, to := range Keepings {
			for _, next := range []Keeping{from, to} {
				if err := At(v.dir).Move(next); err != nil {
					t.Fatalf("%s to %s: %v", from, to, err)
				}
				how, err := v.Keeping()
				_, inRing := keyring.Get(service, v.dir)
				if how != next || err != nil || (inRing == nil) != (next == Keyring) || get(t, v, "A") != "1" {
					t.Errorf("%s to %s: %s, %v, %v", from, to, how, err, inRing)
				}
			}
		}
	}
	keyring.MockInitWithError(errors.New("is locked"))
	wrong(t, v.Move(Keyring), "the key was not moved: is locked")
	if get(t, v, "A") != "1" {
		t.Error("another value")
	}
}

// Every byte counts: what is changed does not open, nor does another vault's key.
func TestDamage(t *testing.T) {
	v, w := newVault(t), newVault(t)
	set(t, v, "A", "hunter2")
	set(t, w, "A", "x")
	path, keyPath := filepath.Join(v.dir, fileName), filepath.Join(v.dir, identityName)
	file, key := read(t, path), read(t, keyPath)
	for i := range file {
		damaged := bytes.Clone(file)
		damaged[i] ^= 1
		write(t, path, damaged)
		if _, err := At(v.dir).Get("A"); err == nil || ui.HintOf(err) == "" || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("byte %d: %v", i, err)
		}
		write(t, path, file[:i])
		if _, err := At(v.dir).Get("A"); err == nil || ui.HintOf(err) == "" {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
	// A label that says more than there is.
	label, _ := v.Label()
	was, _ := label.Bytes()
	label[0].Name = "B"
	is, _ := label.Bytes()
	text := base64.RawStdEncoding.EncodeToString
	write(t, path, bytes.Replace(file, []byte(text(was)), []byte(text(is)), 1))
	_, err := At(v.dir).Get("B")
	wrong(t, err, "does not open: it was damaged, or its key (file) is another vault's")
	write(t, path, file)
	for i := range key {
		write(t, keyPath, key[:i])
		_, err := At(v.dir).Get("A")
		wrong(t, err, "is damaged")
	}
	write(t, keyPath, read(t, filepath.Join(w.dir, identityName)))
	_, err = At(v.dir).Get("A")
	wrong(t, err, "is another vault's")
	_, err = v.Set("B", []byte("x")) // this process knows the key
	if err != nil {
		t.Error(err)
	}
	write(t, keyPath, key)
	os.Chmod(keyPath, 0o644)
	_, err = At(v.dir).Get("A")
	wrong(t, err, "is open to other users (mode 0644)")
	os.Chmod(keyPath, 0o600)
	os.Chmod(v.dir, 0o755)
	_, err = v.Set("B", []byte("x"))
	wrong(t, err, "is open to other users")
	os.Chmod(v.dir, 0o700)
	os.Remove(keyPath)
	_, err = At(v.dir).Get("A")
	wrong(t, err, "there is no key beside it, and there is no keyring here")
}

// What was left half written is not in the way, and does not stay.
func TestLeftovers(t *testing.T) {
	v := newVault(t)
	set(t, v, "A", "1")
	for _, name := range []string{identityName, fileName} {
		write(t, filepath.Join(v.dir, name+safepath.Suffix), []byte("half"))
	}
	set(t, v, "A", "2")
	if files, _ := filepath.Glob(v.dir + "/*" + safepath.Suffix); len(files) > 0 || get(t, v, "A") != "2" {
		t.Errorf("left: %v", files)
	}
	// A key without a vault is used.
	os.Remove(filepath.Join(v.dir, fileName))
	key := read(t, filepath.Join(v.dir, identityName))
	set(t, At(v.dir), "A", "3")
	if !bytes.Equal(key, read(t, filepath.Join(v.dir, identityName))) || get(t, v, "A") != "3" {
		t.Error("there is another key")
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The program age reads the vault: here its library, with the files and nothing of ours.
func TestStockAge(t *testing.T) {
	for _, how := range []Keeping{File, Passphrase} {
		v := newVault(t)
		if how == Passphrase {
			t.Setenv(Variable, "correct horse")
		}
		set(t, v, "A", "hunter2")
		file := read(t, filepath.Join(v.dir, identityName))
		if how == Passphrase {
			closed, err := age.NewScryptIdentity("correct horse")
			if err != nil {
				t.Fatal(err)
			}
			file = decrypt(t, file, closed)
		}
		ids, err := age.ParseIdentities(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(decrypt(t, read(t, filepath.Join(v.dir, fileName)), ids...)); got != `{"A":"aHVudGVyMg=="}` {
			t.Errorf("%s: %s", how, got)
		}
	}
}

func decrypt(t *testing.T, file []byte, ids ...age.Identity) []byte {
	t.Helper()
	r, err := age.Decrypt(bytes.NewReader(file), ids...)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

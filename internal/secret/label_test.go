package secret

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/ui"
)

var when = time.Date(2026, 11, 15, 19, 0, 0, 0, time.UTC)

// written is the head of a vault's file with these lines in its label.
func written(lines string) string {
	text := base64.RawStdEncoding.EncodeToString([]byte(lines))
	head := "age-encryption.org/v1\n-> coffer-secrets 1\n"
	for ; len(text) >= 64; text = text[64:] {
		head += text[:64] + "\n"
	}
	return head + text + "\n-> X25519 x\n"
}

func TestLabel(t *testing.T) {
	l := Label{{"A", when}, {"B_2", when.Add(time.Hour)}}
	text, err := l.Bytes()
	if want := "A 2026-11-15T19:00:00Z\nB_2 2026-11-15T20:00:00Z\n"; err != nil || string(text) != want {
		t.Fatalf("%q, %v", text, err)
	}
	if got, err := parseFile([]byte(written(string(text)))); err != nil || !reflect.DeepEqual(got, l) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := parseFile([]byte(written(""))); err != nil || len(got) > 0 {
		t.Errorf("%v, %v", got, err)
	}
	got, head, sealed, err := splitOld(fmt.Appendf(nil, "coffer vault 1\n%s\n\nx\n\n", text))
	if err != nil || !reflect.DeepEqual(got, l) || string(head) != "coffer vault 1\n"+string(text)+"\n" || string(sealed) != "\nx\n\n" {
		t.Errorf("%v, %q, %q, %v", got, head, sealed, err)
	}
	if !l.Has("A") || !l.Has("B_2") || l.Has("AA") || l.Has("") || Label(nil).Has("A") {
		t.Error("has what it has not")
	}
	for file, want := range map[string]string{
		"":                        "damaged",
		"age-encryption.org/v1":   "damaged",
		"age-encryption.org/v1\n": "damaged",
		"age-encryption.org/v2\n": "newer",
		"age-encryption.org/v1\n-> coffer-secrets 2\n\n":  "newer",
		"age-encryption.org/v1\n-> X25519 x\nabc\n":       "damaged",
		"age-encryption.org/v1\n-> coffer-secrets 1\nQQ":  "damaged",
		"age-encryption.org/v1\n-> coffer-secrets 1\n*\n": "damaged",
		"age\n\n":                         "damaged",
		written("A 2026-11-15T19:00:00Z"): "damaged",
		written("B 2026-11-15T19:00:00Z\nA 2026-11-15T19:00:00Z\n"): "damaged",
		written("A 2026-11-15T19:00:00Z\nA 2026-11-15T19:00:00Z\n"): "damaged",
		written("1 2026-11-15T19:00:00Z\n"):                         "damaged",
		written("A yesterday\n"):                                    "damaged",
		written("A 2026-11-15T19:00:00.5Z\n"):                       "damaged",
		written("A 2026-11-15T19:00:00+01:00\n"):                    "damaged",
		written("A 2026-11-15T19:00:00Z B 2026-11-15T19:00:00Z\n"):  "damaged",
		written(strings.Repeat("A 2026-11-15T19:00:00Z\n", 10000)):  "damaged",
	} {
		if l, err := parseFile([]byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, %v, want an error about %q", file, l, err, want)
		}
	}
}

// What can be wrong with the file is said in a sentence, with a way out.
func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	good := []byte(written("A 2026-11-15T19:00:00Z\n"))
	if l, err := ReadLabel(dir); err != nil || l != nil {
		t.Errorf("no vault: %v, %v", l, err)
	}
	for name, c := range map[string]struct {
		make func() error
		want string
	}{
		"good":    {func() error { return os.WriteFile(path, good, 0o600) }, ""},
		"open":    {func() error { return errors.Join(os.WriteFile(path, good, 0o600), os.Chmod(path, 0o640)) }, "open to other users (mode 0640)"},
		"damaged": {func() error { return os.WriteFile(path, good[1:], 0o600) }, "is damaged"},
		"newer":   {func() error { return os.WriteFile(path, []byte("age-encryption.org/v7\n\n"), 0o600) }, "was written by a newer coffer"},
		"large":   {func() error { return os.WriteFile(path, make([]byte, maxFile+1), 0o600) }, "larger than any vault"},
		"link":    {func() error { return os.Symlink("elsewhere", path) }, "is a symbolic link"},
		"pipe":    {func() error { return syscall.Mkfifo(path, 0o600) }, "is no file"},
		"dir":     {func() error { return os.Mkdir(path, 0o700) }, "is no file"},
	} {
		if err := c.make(); err != nil {
			t.Fatal(err)
		}
		l, err := ReadLabel(dir)
		if c.want == "" && (err != nil || !l.Has("A")) {
			t.Errorf("%s: %v, %v", name, l, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || ui.HintOf(err) == "") {
			t.Errorf("%s: %v (hint: %s), want %q", name, err, ui.HintOf(err), c.want)
		}
		os.Remove(path)
	}
}

// A label that is taken is one that would be written just so.
func FuzzParseFile(f *testing.F) {
	for _, s := range []string{"", written(""), written("A 2026-11-15T19:00:00Z\n"), "coffer vault 1\n\n", "coffer vault 1\nA 2026-11-15T19:00:00Z\n\nsealed"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		l, err := parseFile(file)
		if err != nil {
			var head, sealed []byte
			if l, head, sealed, err = splitOld(file); err != nil {
				return
			}
			if !bytes.Equal(append(bytes.Clone(head), sealed...), file) {
				t.Fatalf("%q: %q, %q", file, head, sealed)
			}
		}
		text, err := l.Bytes()
		if err != nil || bytes.HasPrefix(file, []byte(oldIntro)) != bytes.HasPrefix(file, append([]byte(oldIntro), text...)) {
			t.Fatalf("%q: %v, %v", file, l, err)
		}
		for _, e := range l {
			if CheckName(e.Name) != nil || !l.Has(e.Name) {
				t.Fatalf("%q: %q", file, e.Name)
			}
		}
	})
}

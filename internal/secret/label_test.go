package secret

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/hint"
)

var when = time.Date(2026, 11, 15, 19, 0, 0, 0, time.UTC)

func TestLabel(t *testing.T) {
	l := Label{{"A", when}, {"B_2", when.Add(time.Hour)}}
	head, err := l.Bytes()
	if want := "coffer vault 1\nA 2026-11-15T19:00:00Z\nB_2 2026-11-15T20:00:00Z\n\n"; err != nil || string(head) != want {
		t.Fatalf("%q, %v", head, err)
	}
	got, head2, sealed, err := Split(append(bytes.Clone(head), "\nx\n\n"...))
	if err != nil || !reflect.DeepEqual(got, l) || !bytes.Equal(head, head2) || string(sealed) != "\nx\n\n" {
		t.Errorf("%v, %q, %q, %v", got, head2, sealed, err)
	}
	if !l.Has("A") || !l.Has("B_2") || l.Has("AA") || l.Has("") || Label(nil).Has("A") {
		t.Error("has what it has not")
	}
	for file, want := range map[string]string{
		"":                   "damaged",
		"coffer vault 1":     "damaged",
		"coffer vault 1\n":   "damaged",
		"coffer vault 2\n\n": "newer",
		"coffer vault x\n\n": "damaged",
		"age\n\n":            "damaged",
		"coffer vault 1\nA 2026-11-15T19:00:00Z\n":                             "damaged",
		"coffer vault 1\nB 2026-11-15T19:00:00Z\nA 2026-11-15T19:00:00Z\n\n":   "damaged",
		"coffer vault 1\nA 2026-11-15T19:00:00Z\nA 2026-11-15T19:00:00Z\n\n":   "damaged",
		"coffer vault 1\n1 2026-11-15T19:00:00Z\n\n":                           "damaged",
		"coffer vault 1\nA yesterday\n\n":                                      "damaged",
		"coffer vault 1\nA 2026-11-15T19:00:00.5Z\n\n":                         "damaged",
		"coffer vault 1\nA 2026-11-15T19:00:00+01:00\n\n":                      "damaged",
		"coffer vault 1\nA 2026-11-15T19:00:00Z B 2026-11-15T19:00:00Z\n\n":    "damaged",
		"coffer vault 1\r\n\r\n":                                               "damaged",
		"coffer vault 1\n" + strings.Repeat("A 2026-11-15T19:00:00Z\n", 10000): "damaged",
	} {
		if l, _, _, err := Split([]byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, %v, want an error about %q", file, l, err, want)
		}
	}
}

// What can be wrong with the file is said in a sentence, with a way out.
func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	good := []byte("coffer vault 1\nA 2026-11-15T19:00:00Z\n\nxyz")
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
		"newer":   {func() error { return os.WriteFile(path, []byte("coffer vault 7\n\n"), 0o600) }, "was written by a newer coffer"},
		"large":   {func() error { return os.WriteFile(path, make([]byte, MaxFile+1), 0o600) }, "larger than any vault"},
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
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || hint.Of(err) == "") {
			t.Errorf("%s: %v (hint: %s), want %q", name, err, hint.Of(err), c.want)
		}
		os.Remove(path)
	}
}

// A file that is taken is one that would be written just so.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{"", "coffer vault 1\n\n", "coffer vault 1\nA 2026-11-15T19:00:00Z\n\nsealed", "coffer vault 2\n\n", "coffer vault 1\nA 2026-11-15T19:00:00Z\nB 2026-11-15T19:00:00Z\n\n\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		l, head, sealed, err := Split(file)
		if err != nil {
			return
		}
		again, err := l.Bytes()
		if err != nil || !bytes.Equal(again, head) || !bytes.Equal(append(again, sealed...), file) {
			t.Fatalf("%q: %v, %q, %q, %v", file, l, head, sealed, err)
		}
		for _, e := range l {
			if CheckName(e.Name) != nil || !l.Has(e.Name) {
				t.Fatalf("%q: %q", file, e.Name)
			}
		}
	})
}

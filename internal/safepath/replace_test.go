package safepath

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
)

// names are what is in a directory.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		list = append(list, e.Name())
	}
	return list
}

func TestWrite(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	for _, f := range []File{{}, {Synced: true}, {Alone: true}, {Synced: true, Alone: true}, {Mode: 0o644}, {Mode: 0o700, Alone: true}, {Mode: 0o400}} {
		dir := t.TempDir()
		f.Path = filepath.Join(dir, "file")
		for _, text := range []string{"first, and long", "second", ""} {
			if err := f.Write([]byte(text)); err != nil {
				t.Fatalf("%+v: %v", f, err)
			}
			got, err := os.ReadFile(f.Path)
			if err != nil || string(got) != text {
				t.Errorf("%+v: %q, %v, want %q", f, got, err, text)
			}
			want := f.Mode
			if want == 0 {
				want = 0o600
			}
			if info, err := os.Stat(f.Path); err != nil || info.Mode() != want {
				t.Errorf("%+v: %v, %v", f, info.Mode(), err)
			}
		}
		if left := names(t, dir); !slices.Equal(left, []string{"file"}) {
			t.Errorf("%+v: left %v", f, left)
		}
	}
}

// Who reads the old file meanwhile goes on to do so, and a link is replaced, not followed.
func TestOldStays(t *testing.T) {
	dir := t.TempDir()
	target, path := filepath.Join(dir, "target"), filepath.Join(dir, "file")
	if err := os.WriteFile(target, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("target", path); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := (File{Path: path}).Write([]byte("new")); err != nil {
		t.Fatal(err)
	}
	var was [10]byte
	if n, _ := reader.Read(was[:]); string(was[:n]) != "mine" {
		t.Errorf("the reader has %q", was[:n])
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != 0 {
		t.Errorf("%v, %v", info, err)
	}
}

// What a killed one left is no hindrance for who is alone, not even a link that leads elsewhere.
func TestLeftDraft(t *testing.T) {
	dir := t.TempDir()
	victim, path := filepath.Join(dir, "victim"), filepath.Join(dir, "file")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, leave := range map[string]func() error{
		"half": func() error { return os.WriteFile(path+Suffix, []byte("{"), 0o644) },
		"link": func() error { return os.Symlink("victim", path+Suffix) },
		"hard": func() error { return os.Link(victim, path+Suffix) },
	} {
		if err := leave(); err != nil {
			t.Fatal(err)
		}
		if err := (File{Path: path, Alone: true}).Write([]byte("new")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, _ := os.ReadFile(path); string(got) != "new" {
			t.Errorf("%s: %q", name, got)
		}
		if got, _ := os.ReadFile(victim); string(got) != "mine" {
			t.Errorf("%s: the victim has %q", name, got)
		}
		if _, err := os.Lstat(path + Suffix); err == nil {
			t.Errorf("%s: the draft is there", name)
		}
	}
}

// A failure leaves what was there, and no draft.
func TestFailure(t *testing.T) {
	for _, alone := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, "taken")
		if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := (File{Path: path, Alone: alone}).Write([]byte("x")); err == nil {
			t.Error("a directory was replaced")
		}
		if left := names(t, dir); !slices.Equal(left, []string{"taken"}) {
			t.Errorf("left %v", left)
		}
		err := File{Path: filepath.Join(dir, "none", "file"), Alone: alone}.Write([]byte("x"))
		if !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}

// Of several who write at once, one counts, as a whole.
func TestTogether(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for range 20 {
				if err := (File{Path: path}).Write(bytes.Repeat([]byte{byte('a' + n)}, 1<<16)); err != nil {
					t.Error(err)
				}
				if got, err := os.ReadFile(path); err != nil || len(got) != 1<<16 || bytes.Count(got, got[:1]) != len(got) {
					t.Errorf("a mixture of %d bytes, %v", len(got), err)
				}
			}
		})
	}
	all.Wait()
	if left := names(t, dir); !slices.Equal(left, []string{"file"}) {
		t.Errorf("left %v", left)
	}
}

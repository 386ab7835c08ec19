package safepath

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// hostile is a directory with all that a sandbox can put in the place of a file.
func hostile(t *testing.T) (dir *os.File, secret string) {
	t.Helper()
	outside, tree := t.TempDir(), t.TempDir()
	secret = filepath.Join(outside, "secret")
	must(t, os.WriteFile(secret, []byte("secret"), 0o600), os.MkdirAll(tree+"/a/b", 0o700), os.WriteFile(tree+"/a/b/file", []byte("text"), 0o600),
		os.Symlink(secret, tree+"/out"), os.Symlink(outside, tree+"/dir"), os.Symlink("a", tree+"/in"), os.Symlink("file", tree+"/a/b/link"),
		unix.Mkfifo(tree+"/fifo", 0o600), os.WriteFile(tree+"/long", make([]byte, 100), 0o600))
	f, err := OpenDir(tree)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f, secret
}

func TestReadFile(t *testing.T) {
	dir, secret := hostile(t)
	if b, err := ReadFile(dir, "a/b/file", 4); string(b) != "text" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	for name, want := range map[string]error{
		"out": unix.ELOOP, "dir/secret": unix.ELOOP, "in/b/file": unix.ELOOP, "a/b/link": unix.ELOOP, "none": os.ErrNotExist,
		"../x": unix.EXDEV, secret: unix.EXDEV, "fifo": ErrNotRegular, "a": ErrNotRegular, "": ErrNotRegular, "long": ErrTooLarge,
	} {
		if b, err := ReadFile(dir, name, 99); !errors.Is(err, want) {
			t.Errorf("%q: %q, %v, want %v", name, b, err, want)
		}
	}
}

func TestReadOwn(t *testing.T) {
	dir, _ := hostile(t)
	if b, err := ReadOwn(dir.Name()+"/in/b/file", 4); string(b) != "text" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	for name, want := range map[string]error{"out": unix.ELOOP, "fifo": ErrNotRegular, "a": ErrNotRegular, "long": ErrTooLarge} {
		if _, err := ReadOwn(dir.Name()+"/"+name, 99); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

func TestRemoveIn(t *testing.T) {
	dir, secret := hostile(t)
	for _, name := range []string{"dir", "a", "fifo", "none"} {
		if err := RemoveIn(dir, name); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(filepath.Join(dir.Name(), name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	if _, err := os.Stat(secret); err != nil {
		t.Error(err)
	}
}

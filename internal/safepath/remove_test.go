package safepath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sys/unix"
)

func gone(t *testing.T, path string) {
	t.Helper()
	if err := RemoveTree(path); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", path, err)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestRemoveTreeSimple(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/file", nil, 0), os.Symlink("/", dir+"/link"), unix.Mkfifo(dir+"/pipe", 0), os.MkdirAll(dir+"/d/e/f", 0o700))
	for _, name := range []string{"file", "link", "pipe", "d/", "missing", "missing/too"} {
		gone(t, dir+"/"+name)
	}
	for _, path := range []string{"/", ".", "..", "", "/..", "a/../.."} {
		var tree *TreeError
		if err := RemoveTree(path); !errors.As(err, &tree) {
			t.Errorf("%q: got %v", path, err)
		}
	}
	t.Chdir(dir)
	must(t, os.Mkdir("relative", 0))
	gone(t, "relative")
}

// Links to a victim everywhere a link can be.
func TestRemoveTreeFollowsNoLink(t *testing.T) {
	dir, victim := t.TempDir(), t.TempDir()
	must(t, os.MkdirAll(victim+"/sub", 0o700), os.WriteFile(victim+"/sub/file", []byte("precious"), 0o400), os.Chmod(victim+"/sub", 0o500))
	tree := dir + "/tree"
	must(t, os.MkdirAll(tree+"/a/b", 0o700),
		os.Symlink(victim, tree+"/link"), os.Symlink(victim+"/sub", tree+"/a/link"), os.Symlink(victim+"/sub/file", tree+"/a/b/file"),
		os.Symlink("..", tree+"/a/up"), os.Symlink(".", tree+"/a/self"),
		os.Chmod(tree+"/a/b", 0), os.Chmod(tree+"/a", 0))
	gone(t, tree)

	must(t, os.Symlink(victim, tree))
	gone(t, tree+"/") // a slash does not make a link a folder
	data, err := os.ReadFile(victim + "/sub/file")
	if string(data) != "precious" || err != nil {
		t.Errorf("the victim has %q, %v", data, err)
	}
	if info, err := os.Stat(victim + "/sub"); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("the victim's mode: %v, %v", info, err)
	}
	must(t, os.Chmod(victim+"/sub", 0o700))
}

// Usually a link is unlinked before anybody asks whether it is a folder. Where
// that fails, or a link takes a folder's place in between, this holds.
func TestOpenDirTakesNoLink(t *testing.T) {
	dir, victim := t.TempDir(), t.TempDir()
	must(t, os.Chmod(victim, 0o500), os.Symlink(victim, dir+"/link"))
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	defer unix.Close(fd)
	if _, err := openDir(fd, "link", unix.O_RDONLY); !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
		t.Errorf("got %v", err)
	}
	_ = chmodDir(fd, "link")
	if info, err := os.Stat(victim); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("the victim's mode: %v, %v", info, err)
	}
}

func TestRemoveTreeModes(t *testing.T) {
	if !testbed.AsOrdinary(t) {
		return
	}
	tree := t.TempDir() + "/tree"
	for mode := range os.FileMode(8) {
		dir := fmt.Sprintf("%s/%d", tree, mode)
		must(t, os.MkdirAll(dir+"/work/work", 0o700), os.WriteFile(dir+"/work/file", nil, 0),
			os.Chmod(dir+"/work/work", 0), os.Chmod(dir+"/work", mode<<6), os.Chmod(dir, mode<<6))
	}
	must(t, os.Chmod(tree, 0))
	gone(t, tree)
}

func TestRemoveTreeDeepAndWide(t *testing.T) {
	base := t.TempDir()
	fd, err := unix.Open(base, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	for depth := range 5000 {
		must(t, unix.Mkdirat(fd, "d", 0o700))
		if depth%100 == 0 { // more than one thing to come back to
			must(t, unix.Mkdirat(fd, "c", 0), unix.Mkdirat(fd, "e", 0o700), unix.Symlinkat("/", fd, "f"))
		}
		next, err := unix.Openat(fd, "d", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		must(t, err, unix.Close(fd))
		fd = next
	}
	must(t, unix.Close(fd))
	for i := range 3000 { // more than one read of the directory
		must(t, os.Mkdir(fmt.Sprintf("%s/d/%s%d", base, strings.Repeat("w", 100), i), 0))
	}
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	tight := limit
	tight.Cur = min(limit.Cur, maxDepth+40)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &tight))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	gone(t, base+"/d")
	gone(t, base+"/c")
	gone(t, base+"/e")
}

// What belongs to others stays and is named; the rest goes. Root prepares it,
// an ordinary user is to delete it.
func TestRemoveTreeOfOthers(t *testing.T) {
	const env = "COFFER_SANDBOX_TEST_OTHERS"
	if os.Geteuid() == 0 {
		dir, err := os.MkdirTemp("/tmp", "coffer-others-")
		must(t, err)
		defer os.RemoveAll(dir)
		tree := dir + "/tree"
		for i := range 70 { // beyond maxDepth
			level := tree + strings.Repeat("/d", i)
			must(t, os.MkdirAll(level, 0o755), os.WriteFile(level+"/mine-a", nil, 0), os.WriteFile(level+"/mine-z", nil, 0))
		}
		bottom := tree + strings.Repeat("/d", 69)
		must(t, os.Mkdir(bottom+"/theirs", 0o755), os.WriteFile(bottom+"/theirs/file", nil, 0o600),
			os.Mkdir(tree+"/closed", 0o700), os.Mkdir(tree+"/closed-and-full", 0o700), os.WriteFile(tree+"/closed-and-full/x", nil, 0))
		must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && !strings.Contains(path, "theirs") && !strings.Contains(path, "closed") {
				err = os.Chown(path, testbed.Ordinary, testbed.Ordinary)
			}
			return err
		}))
		t.Setenv(env, tree)
		testbed.AsOrdinary(t)
		for path, want := range map[string]bool{tree + "/closed-and-full/x": true, tree + "/closed": false} {
			if _, err := os.Lstat(path); (err == nil) != want {
				t.Errorf("%s: %v", path, err)
			}
		}
		theirs := 0
		must(t, filepath.WalkDir(tree, func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, "/theirs/file") {
				theirs++
			}
			return err
		}))
		if theirs != 1 {
			t.Errorf("%d files of another user are left, not 1", theirs)
		}
		// One thing that cannot go must not use up the patience for the rest.
		must(t, filepath.WalkDir(tree, func(path string, _ fs.DirEntry, err error) error {
			if strings.Contains(path, "mine") {
				t.Errorf("%s is still there", path)
			}
			return err
		}))
		gone(t, tree)
		return
	}
	tree := os.Getenv(env)
	if tree == "" {
		t.Skip("needs root to prepare")
	}
	err := RemoveTree(tree)
	var failed *TreeError
	if !errors.As(err, &failed) || !errors.Is(err, fs.ErrPermission) || !strings.HasPrefix(failed.Path, tree+"/") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(failed.Path); err != nil {
		t.Errorf("names %s, which is not there: %v", failed.Path, err)
	}
}

func TestTreeErrorIsSafeToPrint(t *testing.T) {
	err := &TreeError{Path: "/x/\x1b]0;boo\a", Err: unix.EPERM}
	if strings.ContainsAny(err.Error(), "\x1b\a") {
		t.Errorf("%q", err.Error())
	}
}

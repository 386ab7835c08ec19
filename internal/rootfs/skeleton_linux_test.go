package rootfs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// tree makes directories, whose names end with a slash, and files, all with a mode.
func tree(t *testing.T, modes map[string]os.FileMode) string {
	t.Helper()
	top := t.TempDir()
	for name := range modes {
		path := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range modes {
		path := filepath.Join(top, name)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(path, 0o755) })
	}
	return top
}

// contents are what is in a tree, with the permissions.
func contents(t *testing.T, top string) (list []string) {
	t.Helper()
	err := filepath.Walk(top, func(path string, info os.FileInfo, err error) error {
		if err == nil && path != top {
			list = append(list, strings.TrimPrefix(path, top+"/")+" "+info.Mode().String())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

// skeletonOf makes the skeleton of a directory as if it were a system directory.
func skeletonOf(dir, as string, to string) error {
	r, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer r.Close()
	s := &skeleton{top: as, group: new(errgroup.Group)}
	s.group.SetLimit(2)
	return errors.Join(s.dir(dir, r, 0), s.group.Wait())
}

func TestSkeleton(t *testing.T) {
	top := tree(t, map[string]os.FileMode{
		"status": 0o640, "info/list": 0o644, "info/lock": 0o644, "info/secret": 0o600, "parts/": 0o555,
		"1/2/3/4/5/6/7": 0o644, "wide/a/": 0o750, "wide/b/": 0o700, "wide/c/d/": 0o755,
	})
	if err := os.Symlink("status", filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	for range 2 { // the second time it is there, as after a start that was broken off
		if err := skeletonOf(top, "/var/lib/dpkg", to); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"1 drwxr-xr-x", "1/2 drwxr-xr-x", "1/2/3 drwxr-xr-x", "1/2/3/4 drwxr-xr-x", "1/2/3/4/5 drwxr-xr-x", "1/2/3/4/5/6 drwxr-xr-x",
		"info drwxr-xr-x", "info/lock -rw-r--r--", "info/secret -rw-------", "parts drwxr-xr-x", "status -rw-r-----",
		"wide drwxr-xr-x", "wide/a drwxr-x---", "wide/b drwx------", "wide/c drwxr-xr-x", "wide/c/d drwxr-xr-x",
	}
	if got := contents(t, to); !slices.Equal(got, want) {
		t.Errorf("the skeleton is\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	old, err := os.Stat(filepath.Join(top, "status"))
	if err != nil {
		t.Fatal(err)
	}
	copied, err := os.Stat(filepath.Join(to, "status"))
	if err != nil || !copied.ModTime().Equal(old.ModTime()) || copied.Size() != old.Size() {
		t.Errorf("status is copied as %v (%v)", copied, err)
	}
}

// Of /usr and the like there are directories only; of /etc all, with links.
func TestSkeletonKinds(t *testing.T) {
	top := tree(t, map[string]os.FileMode{"bin/x": 0o755, "a/b/x": 0o644, "a/1/2/3/4/5/6/": 0o755, "private/": 0o700})
	if err := os.Symlink("x", filepath.Join(top, "bin/link")); err != nil {
		t.Fatal(err)
	}
	dirs := []string{"a drwxr-xr-x", "a/1 drwxr-xr-x", "a/1/2 drwxr-xr-x", "a/1/2/3 drwxr-xr-x", "a/1/2/3/4 drwxr-xr-x"}
	below := []string{"a/1/2/3/4/5 drwxr-xr-x", "a/1/2/3/4/5/6 drwxr-xr-x"}
	rest := []string{"a/b drwxr-xr-x", "bin drwxr-xr-x", "private drwx------"}
	files := []string{"a/b/x -rw-r--r--", "bin/link Lrwxrwxrwx", "bin/x -rwxr-xr-x"}
	for as, want := range map[string][]string{
		"/usr": slices.Concat(dirs, below, rest),
		"/opt": slices.Concat(dirs, rest),
		"/etc": slices.Concat(dirs, below, rest, files),
	} {
		to := t.TempDir()
		if err := skeletonOf(top, as, to); err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		if got := contents(t, to); !slices.Equal(got, want) {
			t.Errorf("the skeleton of %s is\n%s\nnot\n%s", as, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestUnreadableIsNotMerged(t *testing.T) {
	if !testbed.AsOrdinary(t) {
		return
	}
	top, to := tree(t, map[string]os.FileMode{"a/closed/": 0, "a/open/": 0o755}), t.TempDir()
	if err := skeletonOf(top, "/usr", to); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{"a/closed": true, "a/open": false} {
		got := make([]byte, 1)
		_, err := unix.Getxattr(filepath.Join(to, dir), opaque, got)
		if err == unix.ENOTSUP {
			t.Skip("this file system has no attributes")
		}
		if (string(got) == "y") != want {
			t.Errorf("%s: opaque %q (%v)", dir, got, err)
		}
	}
}

// A directory that cannot be opened because there are too many files is not taken for one that may
// not be read, of which nothing would be seen.
func TestSkeletonFewFiles(t *testing.T) {
	top := tree(t, map[string]os.FileMode{"a/b/c/d/": 0o755})
	made := map[bool]int{}
	for most := range uint64(100) {
		to := t.TempDir()
		err := buildWith(t, most, top, to)
		if made[err == nil]++; err != nil {
			continue
		}
		if got := contents(t, to); len(got) != 4 {
			t.Errorf("with %d files, the skeleton is %q", most, got)
		}
	}
	if made[false] == 0 || made[true] == 0 {
		t.Errorf("it was made, or not, so many times: %v", made)
	}
}

// buildWith makes a skeleton while so many files may be open.
func buildWith(t *testing.T, most uint64, top, to string) error {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	return skeletonOf(top, "/usr", to)
}

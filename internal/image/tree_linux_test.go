package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/image/imagetest"
	"github.com/cofferhq/coffer/internal/safepath"
)

type file = imagetest.File

// pulled pulls a local image of these layers, and returns its tree or the error.
func pulled(t *testing.T, layers ...[]byte) (string, error) {
	t.Helper()
	dir := t.TempDir()
	if err := imagetest.New(nil, layers...).Write(dir+"/oci", "1"); err != nil {
		t.Fatal(err)
	}
	i, err := store(t).Pull(t.Context(), reference(t, "oci:"+dir+"/oci"), Options{})
	if err != nil {
		return "", err
	}
	return i.Tree(), nil
}

func store(t *testing.T) *Store {
	dir := filepath.Join(t.TempDir(), "images")
	t.Cleanup(func() { _ = safepath.RemoveTree(dir) })
	return Open(dir)
}

func reference(t *testing.T, text string) Reference {
	t.Helper()
	r, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// show is what a tree has at a name: its kind, mode and content.
func show(tree, name string) string {
	path := filepath.Join(tree, name)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "none"
	case err != nil:
		return err.Error()
	case info.IsDir():
		return fmt.Sprintf("dir %o", info.Mode().Perm())
	case info.Mode()&fs.ModeSymlink != 0:
		to, _ := os.Readlink(path)
		return "to " + to
	}
	data, _ := os.ReadFile(path)
	return fmt.Sprintf("%v %s", info.Mode(), data)
}

func TestLayers(t *testing.T) {
	long := strings.Repeat("long/", 40) + "name"
	tree, err := pulled(t,
		imagetest.Tar(
			file{Name: "./"}, file{Name: "etc/"}, file{Name: "usr/bin/"}, file{Name: "bin", Link: "/usr/bin"},
			file{Name: "usr/bin/su", Data: "su", Mode: 0o4755}, file{Name: "closed/", Mode: 0o111}, file{Name: "closed/in", Data: "x", Mode: 0o001},
			file{Name: "gone", Data: "x"}, file{Name: "dir/a", Data: "a"}, file{Name: "dir/sub/b", Data: "b"}, file{Name: "becomes-file/x", Data: "x"},
			file{Name: "becomes-dir", Data: "x"}, file{Name: "becomes-link/y", Data: "y"}, file{Name: "opaque/old", Data: "o"}, file{Name: "opaque/deep/old", Data: "o"},
			file{Name: "dangling", Link: "/nowhere/yet"}, file{Name: "dev/", Mode: 0o755}, file{Name: "dev/sda", Type: tar.TypeBlock}, file{Name: "etc/resolv.conf", Link: "../run/x"},
			file{Name: "etc/hosts", Data: "theirs"}, file{Name: "one", Data: "1"}, file{Name: "sub/two", Type: tar.TypeLink, Link: "one"}, file{Name: "con\x01trol\n", Data: "c"}, file{Name: long, Data: "l"},
		),
		imagetest.Tar(
			file{Name: "bin/new", Data: "through the link"}, file{Name: ".wh.gone"}, file{Name: "dir/.wh.sub"}, file{Name: "becomes-file", Data: "file"},
			file{Name: "becomes-dir/"}, file{Name: "becomes-dir/z", Data: "z"}, file{Name: "becomes-link", Link: "dir"},
			file{Name: "opaque/new", Data: "n"}, file{Name: "opaque/deep/new", Data: "n"}, file{Name: "opaque/.wh..wh..opq"}, file{Name: "dangling/file", Data: "d"},
			file{Name: "one", Data: "changed"}, file{Name: "/absolute", Data: "a"}, file{Name: "kept", Data: "k"}, file{Name: ".wh.kept"}, file{Name: ".wh.never"}, file{Name: "never/.wh.never"},
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"bin": "to /usr/bin", "usr/bin/new": "-rw-r--r-- through the link", "usr/bin/su": "-rwxr-xr-x su", "closed": "dir 711", "closed/in": "-r-------x x",
		"gone": "none", "dir/a": "-rw-r--r-- a", "dir/sub": "none", "becomes-file": "-rw-r--r-- file", "becomes-dir": "dir 755", "becomes-dir/z": "-rw-r--r-- z",
		"becomes-link": "to dir", "opaque/old": "none", "opaque/new": "-rw-r--r-- n", "opaque/deep/old": "none", "opaque/deep/new": "-rw-r--r-- n", "opaque/.wh..wh..opq": "none",
		"nowhere/yet/file": "-rw-r--r-- d", "dev/sda": "none", "etc/resolv.conf": "-rw-r--r-- ", "etc/hosts": "-rw-r--r-- theirs", "etc/passwd": "-rw-r--r-- ",
		"one": "-rw-r--r-- changed", "sub/two": "-rw-r--r-- 1", "con\x01trol\n": "-rw-r--r-- c", long: "-rw-r--r-- l", "absolute": "-rw-r--r-- a", "kept": "-rw-r--r-- k",
	} {
		if got := show(tree, name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

// A layer that wants to write elsewhere does not, and none of it is left.
func TestHostile(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	outside := filepath.Dir(victim)
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		layer []byte
		ok    bool // it is unpacked, within the tree
	}{
		"up":                {imagetest.Tar(file{Name: "../../../../../../tmp/x", Data: "x"}), false},
		"up later":          {imagetest.Tar(file{Name: "a/b/../../../x", Data: "x"}), false},
		"up by a link":      {imagetest.Tar(file{Name: "up", Link: "../../../../../.."}, file{Name: "up" + victim, Data: "x"}), true},
		"absolute link":     {imagetest.Tar(file{Name: "out", Link: outside}, file{Name: "out/victim", Data: "x"}), true},
		"link to the file":  {imagetest.Tar(file{Name: "v", Link: victim}, file{Name: "v", Data: "x"}), true},
		"proc":              {imagetest.Tar(file{Name: "p", Link: "/proc/self/cwd"}, file{Name: "p/victim", Data: "x"}), true},
		"whiteout":          {imagetest.Tar(file{Name: "out", Link: outside}, file{Name: "out/.wh.victim"}), true},
		"opaque":            {imagetest.Tar(file{Name: "out", Link: outside}, file{Name: "out/.wh..wh..opq"}), true},
		"whiteout of above": {imagetest.Tar(file{Name: "a/.wh..."}), false},
		"hard link":         {imagetest.Tar(file{Name: "h", Type: tar.TypeLink, Link: victim}, file{Name: "h", Data: "x"}), false},
		"hard link up":      {imagetest.Tar(file{Name: "h", Type: tar.TypeLink, Link: "../../" + victim}), false},
		"hard link by link": {imagetest.Tar(file{Name: "out", Link: outside}, file{Name: "h", Type: tar.TypeLink, Link: "out/victim"}), false},
		"hard link to dir":  {imagetest.Tar(file{Name: "d/"}, file{Name: "h", Type: tar.TypeLink, Link: "d"}), false},
		"device":            {imagetest.Tar(file{Name: "d", Type: tar.TypeChar}), true},
		"etc elsewhere":     {imagetest.Tar(file{Name: "etc", Link: outside}), false},
		"circle":            {imagetest.Tar(file{Name: "a", Link: "b"}, file{Name: "b", Link: "a"}, file{Name: "a/x", Data: "x"}), false},
		"growing circle":    {imagetest.Tar(file{Name: "a", Link: "a/b"}, file{Name: "a/x", Data: "x"}), false},
		"through a file":    {imagetest.Tar(file{Name: "f", Data: "x"}, file{Name: "f/x", Data: "x"}), false},
		"long":              {imagetest.Tar(file{Name: strings.Repeat("x", 300), Data: "x"}), false},
		"too long":          {imagetest.Tar(file{Name: strings.Repeat("x/", 3000), Data: ""}), false},
		"no tar":            {[]byte(strings.Repeat("no tar", 1000)), false},
		"zstd":              {[]byte("\x28\xb5\x2f\xfd and so on"), false},
	} {
		t.Run(name, func(t *testing.T) {
			tree, err := pulled(t, imagetest.Tar(), c.layer) // the second is not compressed
			if (err == nil) != c.ok {
				t.Errorf("%v", err)
			}
			if data, _ := os.ReadFile(victim); string(data) != "mine" {
				t.Fatalf("the victim has %q", data)
			}
			if info, err := os.Stat(victim); err != nil || info.Mode().Perm() != 0o600 {
				t.Fatalf("the victim: %v, %v", info, err)
			}
			if left, _ := os.ReadDir(outside); len(left) != 1 {
				t.Fatalf("left outside: %v", left)
			}
			if err == nil && strings.HasPrefix(name, "absolute") && show(tree, victim) != "-rw-r--r-- x" {
				t.Errorf("within the tree there is %s", show(tree, victim))
			}
		})
	}
}

package image

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/image/imagetest"
	"golang.org/x/sys/unix"
)

// laid is a tree with one layer, and whether that worked.
func laid(t *testing.T, files ...file) (*tree, error) {
	t.Helper()
	tr, err := newTree(filepath.Join(t.TempDir(), "tree"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.close)
	return tr, tr.layer(bytes.NewReader(imagetest.Tar(files...)))
}

// chain has each link lead to the one before it, the first to nowhere.
func chain(n int, before, after string) (list []file) {
	for i := range n {
		list = append(list, file{Name: fmt.Sprintf("l%d", i+1), Link: fmt.Sprintf("%sl%d%s", before, i, after)})
	}
	return list
}

// Links are followed like the kernel follows them, and directories are made where they lead to.
func TestLinks(t *testing.T) {
	for name, c := range map[string]struct {
		files []file
		want  error
		path  string // where it is then
	}{
		"as many as the kernel":   {append(chain(maxLinks, "", ""), file{Name: "l40/f", Data: "x"}), nil, "l0/f"},
		"one more":                {append(chain(maxLinks+1, "", ""), file{Name: "l41/f", Data: "x"}), unix.ELOOP, ""},
		"in a circle":             {[]file{{Name: "a", Link: "b/c"}, {Name: "b", Link: "a"}, {Name: "b/f", Data: "x"}}, unix.ELOOP, ""},
		"up, behind a link":       {[]file{{Name: "d/e/g/"}, {Name: "up", Link: "d/e"}, {Name: "l", Link: "up/../new"}, {Name: "l/f", Data: "x"}}, nil, "d/new/f"},
		"up, out":                 {[]file{{Name: "d/"}, {Name: "l", Link: "d/../../../../new"}, {Name: "l/f", Data: "x"}}, nil, "new/f"},
		"up, from where it is":    {[]file{{Name: "d/l", Link: "../new"}, {Name: "d/l/f", Data: "x"}}, nil, "new/f"},
		"to the root":             {[]file{{Name: "d/l", Link: "/"}, {Name: "d/l/f", Data: "x"}}, nil, "f"},
		"with dots and slashes":   {[]file{{Name: "l", Link: ".//a/./b//"}, {Name: "l/f", Data: "x"}}, nil, "a/b/f"},
		"up, from where none is":  {[]file{{Name: "l", Link: "none/../new"}, {Name: "l/f", Data: "x"}}, unix.ENOENT, ""},
		"deep, as a name can say": {[]file{{Name: "l", Link: strings.Repeat("d/", 2000)}, {Name: "l/f", Data: "x"}}, nil, strings.Repeat("d/", 2000) + "f"},
		"deeper":                  {append(chain(5, "", strings.Repeat("/d", 1000)), file{Name: "l5/f", Data: "x"}), unix.ENAMETOOLONG, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := laid(t, c.files...)
			if !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			var st unix.Stat_t
			if err == nil && unix.Fstatat(tr.root, c.path, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				t.Errorf("there is no %s", c.path)
			}
		})
	}
}

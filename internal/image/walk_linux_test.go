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
func laid(t *testing.T, walked int, files ...file) (*tree, error) {
	t.Helper()
	tr, err := newTree(filepath.Join(t.TempDir(), "tree"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.close)
	tr.walked = walked
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
		"back and forth": {append(append([]file{{Name: "d/"}, {Name: "l0/"}}, chain(5, strings.Repeat("d/../", 800), "")...), file{Name: "l5/f", Data: "x"}),
			unix.ENAMETOOLONG, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := laid(t, 0, c.files...)
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

// A tree that is deep is made with few looks at it, and there is a bound for all together.
func TestWalked(t *testing.T) {
	deep := strings.Repeat("d/", 2000)
	tr, err := laid(t, 0, file{Name: "l", Link: deep}, file{Name: "l/f", Data: "x"}, file{Name: "l/g", Data: "x"})
	if err != nil || tr.walked > 30*len(deep) {
		t.Errorf("%d bytes of names were looked up, for one of %d: %v", tr.walked, len(deep), err)
	}
	if _, err := laid(t, maxWalked-5000, file{Name: deep + "f", Data: "x"}); !errors.Is(err, errWalked) {
		t.Error(err)
	}
	long := strings.Repeat("x", 200)
	if _, err := laid(t, maxWalked-500, file{Name: "d/" + long, Data: "x"}, file{Name: "d/.wh..wh..opq"}, file{Name: "d/.wh..wh..opq"}, file{Name: "d/.wh..wh..opq"}); !errors.Is(err, errWalked) {
		t.Error(err)
	}
}

// Short names count too, for following forty links of one letter takes as long as one of any
// other; and so do the directories above a name, of which links make as many as there are bytes.
func TestWalkedShort(t *testing.T) {
	const most = 4 << 20
	var short []file
	for i := range maxLinks {
		short = append(short, file{Name: string(rune('A' + i + 1)), Link: string(rune('A' + i))})
	}
	short = append(short, file{Name: "A/"})
	for range 1000 {
		short = append(short, file{Name: string(rune('A'+maxLinks)) + "/.wh.x"})
	}
	if _, err := laid(t, maxWalked-most, short...); !errors.Is(err, errWalked) {
		t.Error("links:", err)
	}
	emptied := []file{{Name: "d/a", Data: "x"}, {Name: "d/b", Data: "x"}, {Name: "d/c", Data: "x"}}
	for range 20_000 {
		emptied = append(emptied, file{Name: "d/.wh..wh..opq"})
	}
	if _, err := laid(t, maxWalked-most, emptied...); !errors.Is(err, errWalked) {
		t.Error("emptied:", err)
	}
	var above []file
	for i := range 20 {
		name := fmt.Sprintf("l%d", i)
		above = append(above, file{Name: name, Link: "."}, file{Name: name + "/" + strings.Repeat("d/", 1000) + "f", Data: "x"})
	}
	if _, err := laid(t, maxWalked-most, above...); !errors.Is(err, errWalked) {
		t.Error("above:", err)
	}
}

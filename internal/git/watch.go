package git

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/watch"
)

// Watch watches all that look and outside look at.
func (b *Bridge) Watch(w *watch.Watch) {
	w.Begin()
	watchDir(w, b.private())
	root, err := os.OpenRoot(b.private())
	if err != nil {
		w.Lose()
		return
	}
	defer root.Close()
	l := looker{root: root, watch: w}
	if up := path.Dir(b.refPlace("heads")); up != "." {
		if f, err := root.OpenFile(up, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0); err == nil {
			w.Add(int(f.Fd())) // until there is a branch, there need not be heads
			f.Close()
		}
	}
	l.dir(b.refPlace("heads"), 0)
	l.dir(b.refPlace("tags"), 0)
	if l.n > maxLook {
		w.Lose()
	}
	for _, name := range b.places() {
		dir := filepath.Dir(filepath.Join(b.Common, name))
		for !isDir(dir) && safepath.Within(dir, b.Common) { // it is made with the first branch in it
			dir = filepath.Dir(dir)
		}
		watchDir(w, dir)
	}
	watchDir(w, b.Admin)
	for _, refs := range []string{"refs/heads", "refs/tags"} {
		watchTree(w, filepath.Join(b.Common, refs))
	}
}

// watchTree watches the directories of the user's own refs, which a fetch inside is to
// find as they are.
func watchTree(w *watch.Watch, dir string) {
	n := 0
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if n++; n > maxLook {
			w.Lose()
			return fs.SkipAll
		}
		if err == nil && d.IsDir() {
			watchDir(w, path)
		}
		return nil
	})
}

// watchDir watches a directory that only the user can move.
func watchDir(w *watch.Watch, dir string) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		w.Lose()
		return
	}
	defer f.Close()
	w.Add(int(f.Fd()))
}

// places are the files of the user's repository that outside looks at, but for the HEAD.
func (b *Bridge) places() []string {
	places := []string{filepath.FromSlash(b.branchRef()), "packed-refs"}
	if b.Laid {
		head, _ := firstLine(filepath.Join(b.Admin, "HEAD"))
		if to, ok := strings.CutPrefix(head, "ref: "); ok {
			places = append(places, filepath.Clean("/"+to))
		}
	} else if tables := "reftable/tables.list"; isFile(filepath.Join(b.Common, tables)) {
		places = append(places, tables)
	}
	return places
}

package git

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/safepath"
)

// What moves refs is noticed by what the kernel says of their files. Nothing here asks git.

// Glance is different after a ref inside has moved.
func (b *Bridge) Glance() string { return b.private().look() }

// Settled reports whether there is nothing to sync, and the notes of the last sync. It may
// be called while Sync works.
func (b *Bridge) Settled() (notes []string, ok bool) {
	b.mu.Lock()
	was := b.seen
	b.mu.Unlock()
	return was.all(), was.Inside == b.Glance() && was.Outside == b.outside()
}

// Behind reports whether commits made inside were not synced yet.
func (b *Bridge) Behind() bool { return b.seen.Inside != b.Glance() }

// outside describes the host's side: the worktree's HEAD, and the sandbox's branch.
func (s *State) outside() string {
	head, _ := firstLine(filepath.Join(s.Admin, "HEAD"))
	if to, ok := strings.CutPrefix(head, "ref: "); ok && s.Laid {
		head, _ = firstLine(filepath.Join(s.Common, filepath.Clean("/"+to)))
	}
	tip, err := firstLine(filepath.Join(s.Common, filepath.FromSlash(s.branchRef())))
	if err != nil && !s.Laid {
		for _, name := range []string{"packed-refs", "reftable/tables.list"} {
			if info, err := os.Lstat(filepath.Join(s.Common, name)); err == nil {
				tip += fmt.Sprintf(" %d", info.ModTime().UnixNano())
			}
		}
	}
	return head + "\n" + tip + "\n"
}

// stampRefs is different after git has moved a branch or a tag of the user's: it writes a
// file beside it, and renames that. It is never empty.
func stampRefs(common string) string {
	var s strings.Builder
	note := func(path string) {
		if info, err := os.Lstat(path); err == nil {
			fmt.Fprintf(&s, "%d", info.ModTime().UnixNano())
		}
		s.WriteByte(' ')
	}
	note(filepath.Join(common, "packed-refs"))
	note(filepath.Join(common, "reftable"))
	userRefDirs(common, func(dir string) bool { note(dir); return true })
	return s.String()
}

// userRefDirs visits the directories of the user's branches and tags, until visit returns
// false.
func userRefDirs(common string, visit func(dir string) bool) {
	for _, kind := range []string{"refs/heads", "refs/tags"} {
		_ = filepath.WalkDir(filepath.Join(common, kind), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || !d.IsDir():
				return nil
			case path == filepath.Join(common, wayRef): // those of sandboxes
				return fs.SkipDir
			case !visit(path):
				return fs.SkipAll
			}
			return nil
		})
	}
}

// Watch watches all that [Bridge.Settled] and [Bridge.Refresh] look at.
func (b *Bridge) Watch(w *mask.DirWatch) {
	w.Begin()
	watchDir(w, string(b.private()))
	root, err := os.OpenRoot(string(b.private()))
	if err != nil {
		w.Lose()
		return
	}
	defer root.Close()
	l := looker{root: root, each: func(f *os.File) { w.Add(int(f.Fd())) }}
	if f, err := openDir(root, "refs"); err == nil { // heads need not be there before a branch is
		l.each(f)
		f.Close()
	}
	l.dir("refs/heads", 0)
	l.dir("refs/tags", 0)
	if l.n > maxLook {
		w.Lose()
	}
	places := []string{filepath.FromSlash(b.branchRef()), "packed-refs"}
	if head, _ := firstLine(filepath.Join(b.Admin, "HEAD")); b.Laid && strings.HasPrefix(head, "ref: ") {
		places = append(places, filepath.Clean("/"+strings.TrimPrefix(head, "ref: ")))
	}
	if isDir(filepath.Join(b.Common, "reftable")) {
		places = append(places, "reftable/tables.list")
	}
	for _, name := range places {
		dir := filepath.Dir(filepath.Join(b.Common, name))
		for !isDir(dir) && safepath.Within(dir, b.Common) { // it is made with the first branch in it
			dir = filepath.Dir(dir)
		}
		watchDir(w, dir)
	}
	watchDir(w, b.Admin)
	n := 0
	userRefDirs(b.Common, func(dir string) bool {
		if n++; n > maxLook {
			w.Lose()
			return false
		}
		watchDir(w, dir)
		return true
	})
}

// watchDir watches a directory that only the user can move.
func watchDir(w *mask.DirWatch, dir string) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		w.Lose()
		return
	}
	defer f.Close()
	w.Add(int(f.Fd()))
}

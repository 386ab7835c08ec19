package git

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/watch"
)

// maxLook bounds how many refs inside are looked at, and maxDeep how far down.
const (
	maxLook = 5000
	maxDeep = 32
)

// look describes what the refs inside look like, from outside: nothing is read but what
// the kernel knows of the files, and no link is followed. It is different after a ref
// moved: the time of the last change cannot be set by a program.
func (b *Bridge) look() string {
	root, err := os.OpenRoot(b.private())
	if err != nil {
		return "none"
	}
	defer root.Close()
	l := looker{root: root}
	for _, name := range []string{"HEAD", "packed-refs", b.refPlace("stash")} {
		if info, err := root.Lstat(name); err == nil {
			l.note(name, info)
		}
	}
	l.dir(b.refPlace("heads"), 0)
	l.dir(b.refPlace("tags"), 0)
	return l.String()
}

// Glance is different after a ref inside has moved.
func (b *Bridge) Glance() string { return b.look() }

// refPlace is where refs of a kind are in the private directory.
func (b *Bridge) refPlace(kind string) string {
	if b.memory != nil { // then there are only refs
		return kind
	}
	return "refs/" + kind
}

// looker goes through the refs inside.
type looker struct {
	strings.Builder
	root  *os.Root
	watch *watch.Watch // that directories are added to, or nil
	n     int
}

func (l *looker) note(name string, info fs.FileInfo) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		fmt.Fprintf(l, "%q %d %d %d\n", name, st.Ino, st.Size, changed(st))
	}
}

// dir looks at a directory, and at those in it. What was one a moment ago may be a pipe
// now, in which a reader would wait for ever.
func (l *looker) dir(path string, deep int) {
	f, err := l.root.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if l.watch != nil {
		l.watch.Add(int(f.Fd()))
	}
	list, err := f.ReadDir(max(maxLook-l.n, 0) + 1) // one more than is looked at
	if err != nil {
		return // empty
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, d := range list {
		if l.n++; l.n > maxLook {
			return
		}
		at := path + "/" + d.Name()
		if info, err := l.root.Lstat(at); err == nil {
			l.note(at, info)
		}
		if d.IsDir() && deep < maxDeep {
			l.dir(at, deep+1)
		}
	}
}

// outside describes the host's side: the worktree's HEAD, and its branch. Over a tree of
// the user's it is where he is, and the branch is there only once something has come out.
func (b *Bridge) outside() string {
	head, _ := firstLine(filepath.Join(b.Admin, "HEAD"))
	if b.Laid {
		if to, ok := strings.CutPrefix(head, "ref: "); ok {
			head, _ = firstLine(filepath.Join(b.Common, filepath.Clean("/"+to)))
		}
		tip, _ := firstLine(filepath.Join(b.Common, filepath.FromSlash(b.branchRef())))
		return head + "\n" + tip + "\n"
	}
	tip, err := firstLine(filepath.Join(b.Common, filepath.FromSlash(b.branchRef())))
	if err != nil {
		tip = ""
		for _, name := range []string{"packed-refs", "reftable/tables.list"} {
			if info, err := os.Lstat(filepath.Join(b.Common, name)); err == nil {
				tip += fmt.Sprintf(" %d", info.ModTime().UnixNano())
			}
		}
	}
	return head + "\n" + tip + "\n"
}

// Settled says whether there is nothing to bring over, and what was said about it the last
// time. It may be called while Sync is at work.
func (b *Bridge) Settled() (notes []string, ok bool) {
	b.mu.Lock()
	was := b.seen
	b.mu.Unlock()
	return was.Notes, was.Inside == b.look() && was.Outside == b.outside()
}

package gitbridge

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLook bounds how many refs inside are looked at.
const maxLook = 5000

// look describes what the refs inside look like, from outside: nothing is read but what
// the kernel knows of the files, and no link is followed. It is different after a ref
// moved: the time of the last change cannot be set by a program.
func (b *Bridge) look() string {
	root, err := os.OpenRoot(b.private())
	if err != nil {
		return "none"
	}
	defer root.Close()
	var s strings.Builder
	note := func(name string, info fs.FileInfo) {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			fmt.Fprintf(&s, "%q %d %d %d\n", name, st.Ino, st.Size, changed(st))
		}
	}
	for _, name := range []string{"HEAD", "packed-refs"} {
		if info, err := root.Lstat(name); err == nil {
			note(name, info)
		}
	}
	heads := "refs/heads"
	if b.memory != nil { // then there are only refs
		heads = "heads"
	}
	n := 0
	_ = fs.WalkDir(root.FS(), heads, func(path string, d fs.DirEntry, err error) error {
		if n++; n > maxLook {
			return fs.SkipAll
		}
		if err != nil || strings.Count(path, "/") > 32 {
			return fs.SkipDir
		}
		if info, err := d.Info(); err == nil {
			note(path, info)
		}
		return nil
	})
	return s.String()
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

package mask

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"
)

// A file may have several names, and who may read it by one of them has read it. So if one
// is hidden, all are that are there at a look, wherever that is.

// linked are hidden files that have other names, by their numbers. Several devices may have
// files of the same number.
type linked map[uint64][]Found

func (l linked) add(f Found) { l[f.Which.Ino] = append(l[f.Which.Ino], f) }

// which tells which file an entry is, of what kind, and how many names it has.
func which(fd int, name string) (w Which, kind uint16, names uint32) {
	var st unix.Statx_t
	err := unix.Statx(fd, name, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT,
		unix.STATX_TYPE|unix.STATX_INO|unix.STATX_NLINK|unix.STATX_BTIME, &st)
	if err != nil {
		return w, 0, 0 // gone again, or not ours to look at
	}
	return Which{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino, st.Btime.Sec*1e9 + int64(st.Btime.Nsec)}, st.Mode & unix.S_IFMT, st.Nlink
}

// which is that for a path in the tree.
func (t *Tree) which(path string) (w Which, kind uint16, names uint32) {
	fd, err := t.open(path, unix.O_PATH, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return w, 0, 0
	}
	defer unix.Close(fd)
	return which(fd, "")
}

// links finds the other names of hidden files.
func (w *walk) links() error {
	if len(w.linked) == 0 {
		return nil
	}
	more, err := w.t.named(w.ctx, w.linked)
	w.hidden = append(w.hidden, more...)
	if err == nil && len(w.hidden) > MaxHidden {
		err = &FullError{Root: w.t.Root, Most: most(w.hidden)}
	}
	return err
}

// named looks for all other names of files. It goes into every directory that is not hidden,
// those of git and of dependencies too: nobody had to download such a name.
func (t *Tree) named(ctx context.Context, files linked) ([]Found, error) {
	again := &walk{t: t, ctx: ctx, queue: []string{""}, inodes: files}
	err := again.run()
	return again.hidden, err
}

// sameInode hides an entry that is another name of a hidden file.
func (w *walk) sameInode(got *seen, dir string, fd int, e entry, files linked) {
	if len(files[e.ino]) == 0 || e.kind != unix.DT_REG {
		return
	}
	is, _, names := which(fd, e.name)
	path := join(dir, strings.Clone(e.name))
	if f, ok := files.other(path, is, names); ok {
		got.hidden = append(got.hidden, f)
	}
}

// other is a path as the other name of one of the files, if it is that.
func (l linked) other(path string, is Which, names uint32) (f Found, ok bool) {
	for _, one := range l[is.Ino] {
		switch {
		case one.Path == path:
			return f, false
		case one.Which == is && (names > 1 || is.Born != 0):
			f, ok = one, true
		}
	}
	f.Path, f.Rule = path, f.Rule+" (the same file as "+f.Path+")"
	return f, ok
}

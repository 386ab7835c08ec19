package mask

import (
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A file may have several names, and who may read it by one of them has read it. So if one
// is hidden, all are: those that are there, wherever that is, and those that come.

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
	f.Path, f.Rule, f.same = path, f.Rule+" (the same file as "+f.Path+")", true
	return f, ok
}

// aliases are what a watch knows of the names of hidden files.
type aliases struct {
	secrets linked           // what is hidden, by the first name of each
	names   map[Which]uint32 // how many names each of them had
	seeking linked           // those whose other names are to be found
	rest    time.Time        // not before then
}

// tell tells of a file to hide, and remembers it for its other names.
func (w *watcher) tell(f Found, again bool) error {
	is, kind, names := w.t.which(f.Path)
	if kind == unix.S_IFREG {
		f.Which = is
		w.remember(f, names)
		again = again || names > 1 // one may have gone and come again, and is the same file
	}
	return w.put(f, again)
}

// remember notes a hidden file, and has its other names looked for if there are more of them
// than there were.
func (w *watcher) remember(f Found, names uint32) {
	had, known := w.names[f.Which]
	if !known && !f.same {
		if len(w.names) > 2*MaxHidden {
			w.prune()
		}
		w.secrets.add(f)
	}
	if names > max(had, 1) {
		if w.seeking == nil {
			w.seeking = linked{}
		}
		for _, one := range w.secrets[f.Which.Ino] {
			if one.Which == f.Which {
				f = one // by its first name
			}
		}
		w.seeking.add(f)
	}
	w.names[f.Which] = names
}

// prune forgets files that are not there any more under the name that they had.
func (w *watcher) prune() {
	for ino, list := range w.secrets {
		list = slices.DeleteFunc(list, func(f Found) bool {
			is, _, _ := w.t.which(f.Path)
			if is != f.Which {
				delete(w.names, f.Which)
			}
			return is != f.Which
		})
		if w.secrets[ino] = list; len(list) == 0 {
			delete(w.secrets, ino)
		}
	}
}

// same says whether a new entry is a hidden file, by another name.
func (w *watcher) same(path string, dir bool) (f Found, yes bool) {
	if dir || len(w.secrets) == 0 {
		return f, false
	}
	is, kind, names := w.t.which(path)
	if kind != unix.S_IFREG {
		return f, false
	}
	return w.secrets.other(path, is, names)
}

// maxSeek is how often it is looked for other names at once: whoever may read a file that is
// not hidden yet can make more while we look.
const maxSeek = 4

// seek looks for other names of files that were hidden lately. That takes a look through the
// whole tree, and who is in it can ask for many. So we rest for as long as the last one took.
func (w *watcher) seek(ctx context.Context) error {
	switch {
	case len(w.seeking) == 0:
		return nil
	case time.Now().Before(w.rest):
		if w.fd >= 0 && !w.full {
			_ = w.notify.SetReadDeadline(w.rest)
		}
		return nil
	}
	if err := w.flush(); err != nil {
		return err
	}
	begun := time.Now()
	for n := 0; n < maxSeek && len(w.seeking) > 0; n++ {
		files := w.seeking
		w.seeking = nil
		more, err := w.t.named(ctx, files)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, f := range more {
			if err := w.tell(f, true); err != nil {
				return err
			}
		}
		for _, list := range files {
			for _, f := range list { // for names that were made meanwhile
				if is, _, names := w.t.which(f.Path); is == f.Which {
					w.remember(f, names)
				}
			}
		}
	}
	w.rest = time.Now().Add(time.Since(begun))
	return nil
}

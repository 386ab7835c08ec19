package mask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Scan walks the tree and finds what is to be hidden, and the repositories in it.
func (t *Tree) Scan(ctx context.Context) (*Result, error) {
	w := &walk{t: t}
	if err := w.run(ctx); err != nil {
		return nil, err
	}
	if len(w.linked) > 0 {
		names := &walk{t: t, linked: w.linked, named: true}
		if err := names.run(ctx); err != nil {
			return nil, err
		}
		if w.Hidden = append(w.Hidden, names.Hidden...); len(w.Hidden) > MaxHidden {
			return nil, &FullError{Root: t.Root, Most: most(w.Hidden)}
		}
	}
	byPath := func(a, b Found) int { return cmp.Compare(a.Path, b.Path) }
	slices.SortFunc(w.Hidden, byPath)
	w.Hidden = slices.CompactFunc(w.Hidden, func(a, b Found) bool { return a.Path == b.Path })
	slices.Sort(w.Rules)
	slices.Sort(w.Settings)
	slices.SortFunc(w.Repositories, byPath)
	return &w.Result, nil
}

// Repositories finds repositories only.
func (t *Tree) Repositories(ctx context.Context) ([]Found, error) {
	w := &walk{t: t, bare: true}
	err := w.run(ctx)
	return w.Repositories, err
}

// A walk goes through a tree, level by level.
type walk struct {
	Result
	t      *Tree
	effort effort
	linked linked          // hidden files that have other names
	led    map[string]bool // directories that links have led to
	bare   bool            // look for repositories only
	named  bool            // look for the other names of linked only
}

// seen is what one directory has in it.
type seen struct {
	dirs         []string
	led          []string // directories that links lead to and that are not entered otherwise
	hidden       []Found
	linked       []Found
	repositories []Found
	settings     []string
	rules        bool
}

// run walks the tree.
func (w *walk) run(ctx context.Context) error {
	w.led = map[string]bool{}
	for level := []string{""}; len(level) > 0; {
		var below []string
		for _, dir := range level {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			got, err := w.look(dir)
			if err != nil {
				return err
			}
			if below = append(below, w.take(dir, got)...); len(w.Hidden) > MaxHidden {
				return &FullError{Root: w.t.Root, Most: most(w.Hidden)}
			}
		}
		level = below
	}
	return nil
}

// take notes what a directory has in it, and returns the directories to enter.
func (w *walk) take(dir string, got seen) []string {
	w.Hidden = append(w.Hidden, got.hidden...)
	w.Repositories = append(w.Repositories, got.repositories...)
	w.Settings = append(w.Settings, got.settings...)
	if got.rules {
		w.Rules = append(w.Rules, dir)
	}
	for _, f := range got.linked {
		if w.linked == nil {
			w.linked = linked{}
		}
		w.linked[f.Which.Ino] = append(w.linked[f.Which.Ino], f)
	}
	for _, to := range got.led {
		if !w.led[to] {
			w.led[to] = true
			got.dirs = append(got.dirs, to)
		}
	}
	return got.dirs
}

// maxDeep is the longest path that is looked at. The kernel takes none of more than 4096 bytes,
// and the tree has a path of its own, outside and inside.
const maxDeep = 2048

// Rules for directories that cannot be looked into. A program inside may be able to change that.
var (
	unreadable = Rule{Text: "a directory that cannot be looked into", From: Builtin}
	tooDeep    = Rule{Text: "a directory too far down to be looked into", From: Builtin}
)

// list opens a directory and returns its entries.
func (t *Tree) list(dir string) (*os.File, []fs.DirEntry, error) {
	fd, err := t.open(dir, unix.O_RDONLY|unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd))
	list, err := f.ReadDir(maxEntries + 1)
	if err != nil && err != io.EOF {
		f.Close()
		return nil, nil, err
	}
	return f, list, nil
}

// look reads one directory.
func (w *walk) look(dir string) (got seen, err error) {
	f, list, err := w.t.list(dir)
	switch {
	case errors.Is(err, unix.EACCES) && dir != "":
		if st, err := w.t.stat(dir); err == nil && int(st.Uid) == os.Getuid() {
			got.hidden = []Found{found(&unreadable, dir, true)}
		}
		return got, nil
	case errors.Is(err, unix.ENOENT):
		return got, nil // it was removed meanwhile, and nothing can be made in it
	case (errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)) && dir != "":
		return got, nil // it was replaced meanwhile
	case err != nil:
		return got, fmt.Errorf("look for files to hide: list %s/%s: %w", w.t.Root, dir, err)
	}
	defer f.Close()
	w.effort.entries += len(list)
	if !w.named && !w.bare && slices.ContainsFunc(list, func(e fs.DirEntry) bool { return e.Name() == FileName && e.Type().IsRegular() }) {
		if _, err := w.t.readRules(dir); err != nil {
			return got, err
		}
		got.rules = true
	}
	if name := bare(list); name != "" && dir != "" && !w.named {
		is, _, _ := which(int(f.Fd()), name)
		got.repositories = append(got.repositories, Found{Path: join(dir, "HEAD"), Which: is, Bare: true})
	}
	in := w.t.Set.In(dir)
	in.effort = &w.effort
	for _, e := range list {
		w.entry(&got, in, dir, int(f.Fd()), e)
		if err := w.effort.excess(w.t.Root); err != nil {
			return got, err
		}
	}
	return got, nil
}

// bare says by which of its entries git takes a directory for a git directory, if it has a HEAD.
func bare(list []fs.DirEntry) string {
	has := map[string]bool{}
	for _, e := range list {
		switch name := e.Name(); name {
		case "HEAD", "objects", "refs", "commondir":
			has[name] = true
		}
	}
	switch {
	case has["HEAD"] && has["commondir"]:
		return "commondir"
	case has["HEAD"] && has["objects"] && has["refs"]:
		return "refs"
	}
	return ""
}

// entry decides about one entry.
func (w *walk) entry(got *seen, in Dir, dir string, fd int, e fs.DirEntry) {
	name, at := e.Name(), join(dir, e.Name())
	switch {
	case w.named && !e.IsDir():
		if e.Type().IsRegular() {
			w.sameFile(got, at, fd, name)
		}
		return
	case name == ".git" && !w.named:
		if w.t.nested(dir) {
			got.repository(at, fd, name)
		}
		if e.IsDir() {
			return
		}
	}
	if w.bare && (!e.IsDir() || len(at) > maxDeep) {
		return
	}
	if !w.named && SettingOf(name) != "" {
		got.settings = append(got.settings, at)
	}
	r := &tooDeep
	if !e.IsDir() || len(at) <= maxDeep {
		r = in.Decide(name, e.IsDir())
	}
	switch {
	case r != nil && (!r.Looks() || !e.IsDir() && w.t.confirms(r, at)):
		if !w.named {
			w.hide(got, r, at, fd, e)
		}
	case e.IsDir() && (w.named || in.Enters(name)):
		got.dirs = append(got.dirs, at)
	case e.IsDir():
		w.checkouts(got, at, false)
	case e.Type() == fs.ModeSymlink:
		if to := w.t.leads(at); to != "" {
			got.led = append(got.led, to)
		}
	}
}

func found(r *Rule, path string, dir bool) Found {
	return Found{Path: path, Dir: dir, Rule: r.String(), From: r.From}
}

// hide notes an entry, and what is behind it.
func (w *walk) hide(got *seen, r *Rule, path string, fd int, e fs.DirEntry) {
	f := found(r, path, e.IsDir())
	var names uint32
	f.Which, _, names = which(fd, e.Name())
	got.hidden = append(got.hidden, f)
	if e.Type().IsRegular() && names > 1 {
		got.linked = append(got.linked, f)
	}
	if e.Type() != fs.ModeSymlink {
		return
	}
	if to, dir := w.t.behind(path); to != "" {
		f.Path, f.Dir, f.Rule = to, dir, f.Rule+" (behind "+path+")"
		f.Which, _, _ = w.t.which(to)
		got.hidden = append(got.hidden, f)
	}
}

// nested reports whether a repository in a directory is to be reported. That at the root usually
// is not.
func (t *Tree) nested(dir string) bool { return dir != "" || t.Top }

// repository notes one, by its name in the directory fd.
func (s *seen) repository(path string, fd int, name string) {
	if is, kind, _ := which(fd, name); kind != 0 {
		s.repositories = append(s.repositories, Found{Path: path, Dir: kind == unix.S_IFDIR, Which: is})
	}
}

// checkouts looks for repositories in a directory that a package manager fills. As it may be huge,
// only in the usual places: one package each, and those of a scope one further down.
func (w *walk) checkouts(got *seen, dir string, scope bool) {
	f, list, err := w.t.list(dir)
	if err != nil {
		return
	}
	defer f.Close()
	w.effort.entries += len(list)
	for _, e := range list {
		switch name := e.Name(); {
		case name == ".git":
			got.repository(join(dir, name), int(f.Fd()), name)
		case !e.IsDir():
		case !scope && (name[0] == '@' || name == "src"):
			w.checkouts(got, join(dir, name), true)
		default:
			got.repository(join(dir, name+"/.git"), int(f.Fd()), name+"/.git")
		}
	}
}

// linked are hidden files that have other names (hard links), by their inode number.
type linked map[uint64][]Found

// which returns what identifies an entry, its kind, and how many names it has.
func which(fd int, name string) (w Which, kind uint16, names uint32) {
	var st unix.Statx_t
	err := unix.Statx(fd, name, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT,
		unix.STATX_TYPE|unix.STATX_INO|unix.STATX_NLINK|unix.STATX_BTIME, &st)
	if err != nil {
		return w, 0, 0 // gone again, or not ours to look at
	}
	return Which{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino, st.Btime.Sec*1e9 + int64(st.Btime.Nsec)}, st.Mode & unix.S_IFMT, st.Nlink
}

// sameFile hides a file that is another name of a hidden one: whoever reads it by one name has
// read it.
func (w *walk) sameFile(got *seen, path string, fd int, name string) {
	is, _, names := which(fd, name)
	files := w.linked[is.Ino]
	if slices.ContainsFunc(files, func(f Found) bool { return f.Path == path }) {
		return
	}
	for _, f := range files {
		if f.Which == is && (names > 1 || is.Born != 0) {
			f.Path, f.Rule = path, f.Rule+" (the same file as "+f.Path+")"
			got.hidden = append(got.hidden, f)
			return
		}
	}
}

package changes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/rootfs"
	"golang.org/x/sys/unix"
)

// Limits on what is held in memory: a sandbox can make names faster than anyone can read them.
// Variables for tests.
var (
	maxEntries   = 2_000_000
	maxPathBytes = 512 << 20
)

// entry is a Change with what Apply needs to know about both sides.
type entry struct {
	Change
	up, low *node // as listed; nil where there is none
	taken   int64 // when the sandbox got or removed it, for conflicts
}

// walker merges the upper with the lower into a list of entries.
type walker struct {
	ctx          context.Context
	lower, upper *tree
	masked       Masked
	entries      []*entry
	opaque       []string // topmost opaque directories
	seen, bytes  int
	buf          [2][]byte // for comparing, kept from file to file
}

// List returns what differs between the workspace lower and the sandbox's upper, sorted by path.
// It writes nothing, and may run while the sandbox does; what changes meanwhile is listed in one
// state or another, or as SkipBusy. What is masked is SkipMasked.
func List(ctx context.Context, lower, upper string, masked ...Masked) ([]Change, error) {
	w, err := walk(ctx, lower, upper, func(path string, dir bool) bool {
		return slices.ContainsFunc(masked, func(m Masked) bool { return m != nil && m(path, dir) })
	})
	if err != nil {
		return nil, err
	}
	defer w.close()
	out := make([]Change, len(w.entries))
	for i, e := range w.entries {
		out[i] = e.Change
	}
	return out, nil
}

// walk lists both trees and leaves them open.
func walk(ctx context.Context, lower, upper string, masked Masked) (*walker, error) {
	w := &walker{ctx: ctx, masked: masked, buf: [2][]byte{make([]byte, 128<<10), make([]byte, 128<<10)}}
	var err error
	if w.lower, err = openTree("workspace", lower, 0); err != nil {
		return nil, err
	}
	if w.upper, err = openTree("upper", upper, unix.O_NOFOLLOW); err != nil {
		w.lower.Close()
		return nil, err
	}
	low, err := statFile(w.lower.root)
	if err == nil {
		err = w.directory("", nil, &low, 0)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	slices.SortFunc(w.entries, func(a, b *entry) int { return strings.Compare(a.Path, b.Path) })
	w.keepParents()
	return w, nil
}

func (w *walker) close() {
	w.lower.Close()
	w.upper.Close()
}

// directory compares the upper directory rel and all below it with low, what the workspace has
// there. hidden is 0, or since when an opaque directory above hides the lower: the kernel marks
// only the topmost one.
func (w *walker) directory(rel string, up, low *node, hidden int64) error {
	l, err := w.list(w.upper, rel)
	if err == nil && l.opaque && rel == "" {
		err = fmt.Errorf("%w %sopaque", ErrPlanted, overlayPrefix) // the kernel never marks the root
	}
	if err != nil {
		return w.unreadable(newEntry(rel, up, low), up, err)
	}
	up = &l.node
	if low.isDir() {
		dir, err := w.lower.open(rel, listFlags)
		if err != nil {
			return w.unreadable(newEntry(rel, up, low), low, err)
		}
		dir.Close()
	}
	if rel == path.Dir(rootfs.IncludeAt) && low == nil && slices.Equal(l.names, []string{path.Base(rootfs.IncludeAt)}) {
		return nil // holds other repositories, which is not the sandbox's doing
	}
	if err := w.addDir(rel, up, low); err != nil {
		return err
	}
	if l.opaque && hidden == 0 {
		hidden = up.taken()
		w.opaque = append(w.opaque, rel)
	}
	for _, name := range l.names {
		if err := w.child(join(rel, name), low.isDir(), l.marks, hidden); err != nil {
			return err
		}
	}
	if hidden != 0 && low.isDir() {
		return w.deletedIn(newEntry(rel, up, low), hidden, l.names)
	}
	return nil
}

// child compares one entry of an upper directory that has the marks m.
func (w *walker) child(rel string, inLower bool, m marks, hidden int64) error {
	if len(rel) > maxPath {
		return w.add(&entry{Change: Change{Path: rel, Kind: Added, Skipped: SkipTooLong}})
	}
	up, err := w.upper.stat(rel)
	if err != nil {
		return w.unreadable(newEntry(rel, &node{}, nil), nil, err)
	}
	if up == nil {
		return nil // gone since it was listed
	}
	var low *node
	if inLower {
		if low, err = w.lower.stat(rel); err != nil {
			return w.unreadable(newEntry(rel, up, nil), nil, err)
		}
	}
	if rel == rootfs.IncludeAt && up.isDir() && low == nil {
		return nil
	}
	if up.isDir() && low.isDir() && hidden == 0 && path.Base(rel) == ".git" && w.onlyIndex(rel) {
		return nil
	}
	reason := w.reason(rel, low)
	if up.isDir() && reason == "" {
		return w.directory(rel, up, low, hidden)
	}
	white, err := w.whiteout(rel, up, m)
	if err != nil || white && low == nil {
		return err
	}
	if white {
		return w.deleted(rel, low, up.taken())
	}
	e := newEntry(rel, up, low)
	e.Skipped = reason
	return w.leaf(e)
}

// leaf adds an entry that is not a directory to go into.
func (w *walker) leaf(e *entry) error {
	switch {
	case e.Skipped != "":
	case e.up.is(unix.S_IFREG):
		return w.regular(e)
	case e.up.is(unix.S_IFLNK):
		return w.symlink(e)
	case e.up.is(unix.S_IFIFO):
		e.Skipped = SkipFIFO
	case e.up.is(unix.S_IFSOCK):
		e.Skipped = SkipSocket
	default:
		e.Skipped = SkipDevice
	}
	return w.add(e)
}

// whiteout says whether an upper entry only removes the lower one.
func (w *walker) whiteout(rel string, up *node, m marks) (bool, error) {
	if up.is(unix.S_IFCHR) && up.whiteoutDev {
		return true, nil
	}
	if !m.xwhiteout || !up.is(unix.S_IFREG) || up.size != 0 {
		return false, nil
	}
	f, _, err := w.upper.regular(rel)
	if err != nil {
		return false, nil // what it is instead is found out later
	}
	defer f.Close()
	m, err = readMarks(f)
	return m.whiteout, err
}

// onlyIndex says whether all that differs in a git directory is the index. Any git status writes
// it, and it is never applied.
func (w *walker) onlyIndex(rel string) bool {
	l, err := w.list(w.upper, rel)
	if err != nil || l.opaque {
		return false
	}
	if len(l.names) == 0 {
		return true // git made a lock, and removed it
	}
	index, err := w.upper.stat(rel + "/index")
	return err == nil && len(l.names) == 1 && index.is(unix.S_IFREG)
}

// reason is why a path is left alone whatever it is.
func (w *walker) reason(rel string, low *node) Reason {
	switch name := path.Base(rel); {
	case IsGit(name):
		return SkipGit
	case isTemp(name):
		return SkipReserved
	case len(rel) > maxPath:
		return SkipTooLong
	case low != nil && w.masked != nil && w.masked(rel, low.isDir()):
		return SkipMasked
	}
	return ""
}

// deleted lists a lower entry, and all below it, as deleted. One by one, because Apply removes
// only what was listed: a file that the user adds meanwhile stays.
func (w *walker) deleted(rel string, low *node, taken int64) error {
	e := newEntry(rel, nil, low)
	e.taken = taken
	if e.Skipped = w.reason(rel, low); e.Skipped == SkipReserved {
		e.Skipped = "" // left by an Apply that was killed; it may go
	}
	err := w.add(e)
	if err == nil && low.isDir() && e.Skipped == "" {
		err = w.deletedIn(e, taken, nil)
	}
	return err
}

// deletedIn lists the content of a lower directory as deleted, except what the upper has too.
func (w *walker) deletedIn(e *entry, taken int64, except []string) error {
	l, err := w.list(w.lower, e.Path)
	if err != nil {
		return w.explain(e, e.low, err)
	}
	for _, name := range l.names {
		rel := join(e.Path, name)
		if _, ok := slices.BinarySearch(except, name); ok {
			continue
		}
		low, err := w.lower.stat(rel)
		if err == unix.ENAMETOOLONG {
			low, err = &node{}, nil // reason says so
		}
		if err == nil && low != nil {
			err = w.deleted(rel, low, taken)
		}
		if err != nil {
			return fmt.Errorf("list workspace %s: %w", Quote(rel), err)
		}
	}
	return nil
}

// keepParents marks as skipped every directory that would have to be removed but has something
// in it that stays.
func (w *walker) keepParents() {
	at := make(map[string]*entry, len(w.entries))
	for _, e := range w.entries {
		at[e.Path] = e
	}
	passed := map[string]bool{}
	for _, e := range w.entries {
		if e.Skipped == "" {
			continue
		}
		// Each directory once, or deep trees would make this quadratic.
		for dir := path.Dir(e.Path); dir != "." && !passed[dir]; dir = path.Dir(dir) {
			passed[dir] = true
			if p := at[dir]; p != nil && p.Skipped == "" && p.low.isDir() && !p.up.isDir() {
				p.Skipped, p.Detail = SkipNotEmpty, Quote(e.Path)
			}
		}
	}
}

// listing is a directory as it was opened.
type listing struct {
	node
	marks
	names []string // sorted
}

// list reads a directory of a tree, within the limits.
func (w *walker) list(t *tree, rel string) (l listing, err error) {
	dir, err := t.open(rel, listFlags)
	if err != nil {
		return l, err
	}
	defer dir.Close()
	if l.node, err = statFile(dir); err != nil {
		return l, fmt.Errorf("stat: %w", err)
	}
	if t == w.upper {
		if l.marks, err = readMarks(dir); err != nil {
			return l, err
		}
	}
	l.names, err = w.names(dir, len(rel)+1)
	return l, err
}

// names reads the names in a directory whose path has so many bytes.
func (w *walker) names(dir *os.File, above int) (all []string, err error) {
	for {
		some, err := dir.Readdirnames(4096)
		all = append(all, some...)
		w.seen += len(some)
		for _, s := range some {
			w.bytes += above + len(s)
		}
		if err := errors.Join(w.ctx.Err(), w.full()); err != nil {
			return nil, err
		}
		if err == io.EOF {
			slices.Sort(all)
			return all, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (w *walker) full() error {
	if w.seen > maxEntries || w.bytes > maxPathBytes {
		return ErrTooMany
	}
	return nil
}

func join(rel, name string) string {
	if rel == "" {
		return name
	}
	return rel + "/" + name
}

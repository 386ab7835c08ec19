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

// Limits on what is held in memory. A sandbox can make names faster than anyone
// can read them; a big node_modules is a tenth of this. Variables for tests.
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
	included     bool      // there is a place for other repositories
	buf          [2][]byte // for comparing, kept from file to file
}

// List returns what differs between the workspace lower and the sandbox's upper,
// sorted by path. It writes nothing, and may run while the sandbox does; what
// changes meanwhile is listed in one state or another, or as SkipBusy. What is masked, if
// that is said, is SkipMasked.
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
		err = w.directory("", &low, hidden{})
	}
	if err != nil {
		w.close()
		return nil, err
	}
	slices.SortFunc(w.entries, func(a, b *entry) int { return strings.Compare(a.Path, b.Path) })
	w.leaveIncludes()
	w.keepParents()
	return w, nil
}

func (w *walker) close() {
	w.lower.Close()
	w.upper.Close()
}

// hidden says whether, and since when, an opaque directory above hides the
// lower. The kernel marks only the topmost one: in it there is no lower to hide.
type hidden struct {
	on    bool
	since int64
}

// subdir is a directory to go into once the one above is closed again, so that
// a deep tree does not take a file descriptor per level.
type subdir struct {
	rel string
	low *node
}

// directory lists the upper directory rel and all below it; low is what the
// workspace has there.
func (w *walker) directory(rel string, low *node, hide hidden) error {
	subs, hide, err := w.enter(rel, low, hide)
	for _, s := range subs {
		if err == nil {
			err = w.directory(s.rel, s.low, hide)
		}
	}
	return err
}

// enter lists one upper directory, and returns the directories in it and whether
// the lower is hidden from them.
func (w *walker) enter(rel string, low *node, hide hidden) ([]subdir, hidden, error) {
	dir, err := w.upper.dir(rel)
	if err != nil {
		return nil, hide, w.blocked(rel, w.upper, low, err)
	}
	defer dir.Close()
	up, err := statFile(dir)
	if err != nil {
		return nil, hide, fmt.Errorf("stat upper %s: %w", Quote(rel), err)
	}
	m, err := readMarks(dir)
	if err == nil && m.opaque && rel == "" {
		err = fmt.Errorf("%w %sopaque", ErrPlanted, overlayPrefix) // the kernel never marks the root
	}
	if err != nil {
		return nil, hide, fmt.Errorf("upper %s: %w", Quote(path.Join(".", rel)), err)
	}
	var lowDir *os.File
	if low.isDir() {
		if lowDir, err = w.lower.dir(rel); err != nil {
			return nil, hide, w.blocked(rel, w.lower, low, err)
		}
		defer lowDir.Close()
	}
	if rel != "" {
		w.emitDir(rel, &up, low)
	}
	if m.opaque && !hide.on {
		hide = hidden{true, up.taken()}
		w.opaque = append(w.opaque, rel)
	}
	names, err := w.names(dir)
	if err != nil {
		return nil, hide, fmt.Errorf("list upper %s: %w", Quote(rel), err)
	}
	subs, err := w.children(rel, dir, lowDir, names, m, hide)
	if err == nil && hide.on && lowDir != nil {
		err = w.hiddenChildren(rel, lowDir, names, hide.since)
	}
	return subs, hide, err
}

// children looks at every entry of an upper directory, and returns its
// directories for later.
func (w *walker) children(rel string, dir, lowDir *os.File, names []string, m marks, hide hidden) ([]subdir, error) {
	var subs []subdir
	for _, name := range names {
		if err := w.ctx.Err(); err != nil {
			return nil, err
		}
		up, err := statAt(dir, name)
		if err == unix.ENOENT {
			continue // gone since it was listed
		}
		if err != nil {
			return nil, fmt.Errorf("stat upper %s: %w", Quote(join(rel, name)), err)
		}
		var low *node
		if lowDir != nil {
			if low, err = statMaybe(lowDir, name); err != nil {
				return nil, fmt.Errorf("stat workspace %s: %w", Quote(join(rel, name)), err)
			}
		}
		p := place{rel: join(rel, name), name: name, dir: dir, lowDir: lowDir}
		if p.rel == rootfs.IncludeAt && up.isDir() && low == nil {
			w.included = true // where other repositories are shown, which is not the sandbox's doing
			continue
		}
		if up.isDir() && low.isDir() && !hide.on && w.onlyIndex(p) {
			continue
		}
		if up.isDir() && p.reason() == "" && !w.hides(p.rel, low) {
			subs = append(subs, subdir{p.rel, low})
			continue
		}
		if err := w.leaf(p, &up, low, m); err != nil {
			return nil, err
		}
	}
	return subs, nil
}

// leaf handles everything that is not a directory to go into.
func (w *walker) leaf(p place, up, low *node, m marks) error {
	white := up.is(unix.S_IFCHR) && up.whiteoutDev
	if !white && m.xwhiteout && up.is(unix.S_IFREG) && up.size == 0 {
		f, _, err := openRegular(p.dir, p.name)
		if err == nil {
			var fm marks
			fm, err = readMarks(f)
			white = fm.whiteout
			f.Close()
		}
		if errors.Is(err, ErrPlanted) {
			return fmt.Errorf("upper %s: %w", Quote(p.rel), err)
		}
	}
	if white {
		if low == nil {
			return nil
		}
		return w.deleted(p.rel, low, up.taken())
	}
	e := newEntry(p.rel, up, low)
	if e.Skipped = p.reason(); e.Skipped == "" && w.hides(p.rel, low) {
		e.Skipped = SkipMasked
	}
	if e.Skipped != "" {
		w.add(e)
		return w.full()
	}
	switch up.mode & unix.S_IFMT {
	case unix.S_IFREG:
		return w.regular(e, p)
	case unix.S_IFLNK:
		return w.symlink(e, p)
	case unix.S_IFIFO:
		e.Skipped = SkipFIFO
	case unix.S_IFSOCK:
		e.Skipped = SkipSocket
	default:
		e.Skipped = SkipDevice
	}
	w.add(e)
	return w.full()
}

// hides says whether something of the workspace is hidden from the sandbox.
func (w *walker) hides(rel string, low *node) bool {
	return low != nil && w.masked != nil && w.masked(rel, low.isDir())
}

// hiddenChildren are deleted by an opaque directory: all the lower has and the
// upper has not.
func (w *walker) hiddenChildren(rel string, lowDir *os.File, names []string, since int64) error {
	have := make(map[string]bool, len(names))
	for _, n := range names {
		have[n] = true
	}
	lows, err := w.names(lowDir)
	if err != nil {
		return fmt.Errorf("list workspace %s: %w", Quote(rel), err)
	}
	for _, name := range lows {
		if have[name] {
			continue
		}
		low, err := statMaybe(lowDir, name)
		if err != nil {
			return fmt.Errorf("stat workspace %s: %w", Quote(join(rel, name)), err)
		}
		if low != nil {
			if err := w.deleted(join(rel, name), low, since); err != nil {
				return err
			}
		}
	}
	return nil
}

// deleted lists a lower entry, and all below it, as deleted. One by one, because
// Apply removes only what was listed: a file the user adds meanwhile stays.
func (w *walker) deleted(rel string, low *node, taken int64) error {
	if err := errors.Join(w.ctx.Err(), w.full()); err != nil {
		return err
	}
	e := newEntry(rel, nil, low)
	e.taken = taken
	e.Skipped = place{rel: rel, name: path.Base(rel)}.reason()
	if e.Skipped == SkipReserved {
		e.Skipped = "" // left by an Apply that was killed; it may go
	}
	if e.Skipped == "" && w.hides(rel, low) {
		e.Skipped = SkipMasked
	}
	w.add(e)
	if !low.isDir() || e.Skipped != "" {
		return nil
	}
	return w.deletedBelow(e, rel, taken)
}

// deletedBelow lists the content of a lower directory as deleted.
func (w *walker) deletedBelow(e *entry, rel string, taken int64) error {
	dir, err := w.lower.dir(rel)
	if err != nil {
		return w.explain(e, w.lower, rel, err)
	}
	names, err := w.names(dir)
	var lows []*node
	for _, name := range names {
		if err == nil {
			var low *node
			low, err = statMaybe(dir, name)
			lows = append(lows, low)
		}
	}
	dir.Close()
	if err != nil {
		return fmt.Errorf("list workspace %s: %w", Quote(rel), err)
	}
	for i, name := range names {
		if lows[i] == nil {
			continue
		}
		if err := w.deleted(join(rel, name), lows[i], taken); err != nil {
			return err
		}
	}
	return nil
}

// leaveIncludes takes a new directory off the list in which there is nothing but the place
// where other repositories are shown.
func (w *walker) leaveIncludes() {
	above := path.Dir(rootfs.IncludeAt)
	i := slices.IndexFunc(w.entries, func(e *entry) bool { return e.Path == above })
	if i < 0 || w.entries[i].low != nil || !w.entries[i].up.isDir() || !w.included {
		return
	}
	if !slices.ContainsFunc(w.entries, func(e *entry) bool { return strings.HasPrefix(e.Path, above+"/") }) {
		w.entries = slices.Delete(w.entries, i, i+1)
	}
}

// keepParents marks as skipped every directory that would have to be removed but
// holds something that stays.
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

// names reads a directory, within the limits.
func (w *walker) names(dir *os.File) ([]string, error) {
	var all []string
	for {
		some, err := dir.Readdirnames(4096)
		all = append(all, some...)
		w.seen += len(some)
		for _, s := range some {
			w.bytes += len(s) + len(dir.Name()) + 1
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

func statMaybe(dir *os.File, name string) (*node, error) {
	n, err := statAt(dir, name)
	if err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &n, nil
}

func join(rel, name string) string {
	if rel == "" {
		return name
	}
	return rel + "/" + name
}

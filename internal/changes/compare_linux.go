package changes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// newEntry is an entry whose kind follows from the two types alone.
func newEntry(rel string, up, low *node) *entry {
	e := &entry{Change: Change{Path: rel}, up: up, low: low}
	if up != nil {
		e.NewMode, e.NewSize, e.taken = fileMode(up.mode), up.size, up.taken()
	}
	if low != nil {
		e.OldMode, e.OldSize = fileMode(low.mode), low.size
	}
	switch {
	case low == nil:
		e.Kind = Added
	case up == nil:
		e.Kind = Deleted
	case up.mode&unix.S_IFMT != low.mode&unix.S_IFMT:
		e.Kind = TypeChanged
	default:
		e.Kind = Modified
	}
	return e
}

func (w *walker) add(e *entry) { w.entries = append(w.entries, e) }

// emitDir adds the entry for an upper directory, if it is a change by itself.
func (w *walker) emitDir(rel string, up, low *node) {
	e := newEntry(rel, up, low)
	if e.Kind == Modified {
		if dirMode(up, low) == low.mode&0o7777 {
			return
		}
		e.Kind = ModeChanged
	}
	w.add(e)
}

// dirMode is the mode a directory gets: a set-group-ID bit may stay, not come.
func dirMode(up, low *node) uint32 {
	m := up.mode & 0o1777
	if low.isDir() {
		m |= low.mode & 0o6000
	}
	return m
}

// regular compares a regular upper file with the lower entry.
func (w *walker) regular(e *entry, p place) error {
	f, up, err := openRegular(p.dir, p.name)
	if err != nil {
		return w.unopened(e, err)
	}
	defer f.Close()
	if _, err := readMarks(f); err != nil {
		return fmt.Errorf("upper %s: %w", Quote(p.rel), err)
	}
	// From here on the open file is what counts, not what was listed.
	*e.up, e.NewMode, e.NewSize, e.taken = up, fileMode(up.mode), up.size, up.taken()
	if e.Kind == Modified {
		same, err := w.sameContent(f, up, p)
		if err != nil {
			return fmt.Errorf("compare %s: %w", Quote(p.rel), err)
		}
		switch {
		case same && up.mode&0o777 == e.low.mode&0o777:
			return nil
		case same:
			e.Kind = ModeChanged
		}
	}
	w.add(e)
	return w.below(e, p)
}

// symlink compares an upper symlink with the lower entry.
func (w *walker) symlink(e *entry, p place) error {
	target, err := readLink(p.dir, p.name)
	if err != nil {
		return w.unopened(e, err)
	}
	e.Target = target
	if e.Kind == Modified {
		if old, err := readLink(p.lowDir, p.name); err == nil && old == target {
			return nil
		}
	}
	w.add(e)
	return w.below(e, p)
}

// below lists what goes when a lower directory became something else.
func (w *walker) below(e *entry, p place) error {
	if e.low.isDir() {
		return w.deletedBelow(e, p.rel, e.taken)
	}
	return w.full()
}

// unopened reports an upper entry that could not be opened.
func (w *walker) unopened(e *entry, err error) error {
	if err == unix.ENOENT {
		return nil // gone since it was listed
	}
	if err := w.reasonFor(e, e.up, err); err != nil {
		return err
	}
	w.add(e)
	return nil
}

// blocked reports a directory that one of the trees would not open.
func (w *walker) blocked(rel string, t *tree, low *node, cause error) error {
	if rel == "" {
		return fmt.Errorf("open %s: %w", Quote(t.root.Name()), cause)
	}
	if cause == unix.ENOENT && t == w.upper {
		return nil // gone since it was listed
	}
	up := t.peek(rel)
	if t == w.lower {
		up = w.upper.peek(rel)
	}
	if up == nil {
		up = &node{mode: unix.S_IFDIR}
	}
	e := newEntry(rel, up, low)
	if err := w.explain(e, t, rel, cause); err != nil {
		return err
	}
	w.add(e)
	return nil
}

// explain fills in why the directory rel of a tree could not be opened.
func (w *walker) explain(e *entry, t *tree, rel string, cause error) error {
	return w.reasonFor(e, t.peek(rel), cause)
}

// peek stats rel, for a message only.
func (t *tree) peek(rel string) *node {
	dir, err := t.open(parent(rel), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil
	}
	defer dir.Close()
	n, err := statAt(dir, path.Base(rel))
	if err != nil {
		return nil
	}
	return &n
}

// reasonFor turns an error of opening into a Reason; others it returns.
func (w *walker) reasonFor(e *entry, n *node, cause error) error {
	switch {
	case cause == unix.EACCES || cause == unix.EPERM:
		e.Skipped = SkipUnreadable
		if n != nil {
			e.Detail = fmt.Sprintf("mode %04o, owner %d", n.mode&0o7777, n.uid)
		}
	case cause == unix.EXDEV:
		e.Skipped = SkipMount
	case cause == unix.ENOENT, cause == unix.ELOOP, cause == unix.ENOTDIR, cause == unix.ENXIO,
		cause == unix.EAGAIN, errors.Is(cause, ErrChanged):
		e.Skipped = SkipBusy
	default:
		return fmt.Errorf("open %s: %w", Quote(e.Path), cause)
	}
	return nil
}

// sameContent compares an open upper file with the lower file of the same name.
// It reads no more than the lower file has, however the upper one grows.
func (w *walker) sameContent(f *os.File, up node, p place) (bool, error) {
	low, ln, err := openRegular(p.lowDir, p.name)
	if err != nil {
		return false, nil // unreadable for us too: it counts as changed
	}
	defer low.Close()
	if ln.size != up.size {
		return false, nil
	}
	return sameBytes(w.ctx, f, io.LimitReader(low, ln.size), w.buf)
}

func sameBytes(ctx context.Context, a, b io.Reader, buf [2][]byte) (bool, error) {
	x, y := buf[0], buf[1]
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, errB := io.ReadFull(b, y)
		m, errA := io.ReadFull(a, x[:max(n, 1)])
		if errB != nil && !ended(errB) || errA != nil && !ended(errA) {
			return false, errors.Join(errA, errB)
		}
		if m != n || !bytes.Equal(x[:m], y[:n]) {
			return false, nil
		}
		if n < len(y) {
			return true, nil
		}
	}
}

func ended(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF }

// parent is the directory of rel, "" at the top.
func parent(rel string) string {
	if d := path.Dir(rel); d != "." {
		return d
	}
	return ""
}

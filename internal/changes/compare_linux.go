package changes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// newEntry is an entry whose kind follows from the two types alone.
func newEntry(rel string, up, low *node) *entry {
	e := &entry{Change: Change{Path: rel}, up: up, low: low}
	if up != nil {
		e.taken = up.taken()
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

func (w *walker) add(e *entry) error {
	w.entries = append(w.entries, e)
	return errors.Join(w.ctx.Err(), w.full())
}

// addDir adds the entry for an upper directory, if it is a change by itself.
func (w *walker) addDir(rel string, up, low *node) error {
	e := newEntry(rel, up, low)
	if e.Kind == Modified {
		if rel == "" || dirMode(up, low) == low.mode&0o7777 {
			return nil
		}
		e.Kind = ModeChanged
	}
	return w.add(e)
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
func (w *walker) regular(e *entry) error {
	f, up, err := w.upper.regular(e.Path)
	if err != nil {
		return w.unreadable(e, e.up, err)
	}
	defer f.Close()
	if _, err := readMarks(f); err != nil {
		return fmt.Errorf("upper %s: %w", Quote(e.Path), err)
	}
	// From here on the open file is what counts, not what was listed.
	*e.up, e.taken = up, up.taken()
	if e.Kind == Modified {
		same, err := w.sameContent(f, e)
		switch {
		case err != nil:
			return fmt.Errorf("compare %s: %w", Quote(e.Path), err)
		case same && up.mode&0o777 == e.low.mode&0o777:
			return nil
		case same:
			e.Kind = ModeChanged
		}
	}
	return w.addInstead(e)
}

// symlink compares an upper symlink with the lower entry.
func (w *walker) symlink(e *entry) error {
	target, err := w.upper.readLink(e.Path)
	if err != nil {
		return w.unreadable(e, e.up, err)
	}
	e.Target = target
	if e.Kind == Modified {
		if old, err := w.lower.readLink(e.Path); err == nil && old == target {
			return nil
		}
	}
	return w.addInstead(e)
}

// addInstead adds an entry that may take the place of a directory, whose content is then deleted.
func (w *walker) addInstead(e *entry) error {
	if err := w.add(e); err != nil || !e.low.isDir() {
		return err
	}
	return w.deletedIn(e, e.taken, nil)
}

// unreadable adds an entry that could not be opened; n is the side that could not.
func (w *walker) unreadable(e *entry, n *node, cause error) error {
	if cause == unix.ENOENT && n == e.up && e.Path != "" {
		return nil // gone since it was listed
	}
	if err := w.explain(e, n, cause); err != nil {
		return err
	}
	return w.add(e)
}

// explain turns an error of opening one side into a Reason; others it returns.
func (w *walker) explain(e *entry, n *node, cause error) error {
	switch {
	case e.Path == "":
		return fmt.Errorf("list changes: %w", cause)
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

// sameContent compares an open upper file with the lower file of the same name. It reads no more
// than the lower file has, however the upper one grows.
func (w *walker) sameContent(f *os.File, e *entry) (bool, error) {
	low, n, err := w.lower.regular(e.Path)
	if err != nil {
		return false, nil // unreadable for us too: it counts as changed
	}
	defer low.Close()
	if n.size != e.up.size {
		return false, nil
	}
	return sameBytes(w.ctx, f, io.LimitReader(low, n.size), w.buf)
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

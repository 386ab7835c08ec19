package changes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// maxShown is the size from which a diff does not show a file's content, only that it differs. It
// bounds memory: both sides are held.
const maxShown = 1 << 20

// Diff writes the changes as a unified diff with git's headers. Paths are quoted
// as git does; content is as found, so a caller that prints to a terminal must
// escape it. What a diff cannot say (directories, skipped paths, content too
// large) is a line of prose between the files, which patch and git apply ignore.
func Diff(ctx context.Context, out io.Writer, lower, upper string, opts DiffOptions) error {
	sel, err := newSelection(opts.Paths)
	if err != nil {
		return err
	}
	w, err := walk(ctx, lower, upper, opts.Masked)
	if err != nil {
		return err
	}
	defer w.close()
	d := &differ{w: w, out: bufio.NewWriter(out), max: maxShown}
	for _, e := range w.entries {
		if !sel.match(e.Path) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.entry(e); err != nil {
			return fmt.Errorf("diff %s: %w", Quote(e.Path), err)
		}
	}
	if err := sel.unmatched(); err != nil {
		return err
	}
	return d.out.Flush()
}

// Each calls visit with both sides of every change. Directories and skipped changes have none, and
// sides larger than the limit have no text.
func Each(ctx context.Context, lower, upper string, limit int64, masked Masked, visit func(Change, File) error) error {
	w, err := walk(ctx, lower, upper, masked)
	if err != nil {
		return err
	}
	defer w.close()
	d := &differ{w: w, max: limit}
	for _, e := range w.entries {
		f := File{Path: e.Path}
		if e.Skipped == "" {
			if f.Old, err = d.read(w.lower, e.Path, e.low); err == nil {
				f.New, err = d.read(w.upper, e.Path, e.up)
			}
			if errors.Is(err, ErrChanged) {
				err = nil // it is gone, or not what it was; the next look sees it
			}
		}
		if err == nil {
			err = visit(e.Change, f)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", Quote(e.Path), err)
		}
	}
	return ctx.Err()
}

type differ struct {
	w   *walker
	out *bufio.Writer
	max int64
}

func (d *differ) entry(e *entry) error {
	if e.Skipped != "" {
		detail := ""
		if e.Detail != "" {
			detail = " (" + e.Detail + ")"
		}
		_, err := fmt.Fprintf(d.out, "Skipped %s: %s: %s%s\n", Quote("b/"+e.Path), e.Kind, e.Skipped, detail)
		return err
	}
	old, err := d.read(d.w.lower, e.Path, e.low)
	if err != nil {
		return err
	}
	now, err := d.read(d.w.upper, e.Path, e.up)
	if err != nil {
		return err
	}
	// Directories have no place in a diff; say it in words, around the files.
	if e.low.isDir() && !e.up.isDir() {
		fmt.Fprintf(d.out, "Directory %s: deleted\n", Quote("a/"+e.Path))
	}
	switch {
	case old.Mode != 0 && now.Mode != 0 && old.Mode&unix.S_IFMT != now.Mode&unix.S_IFMT:
		// A type change is a deletion and an addition, for git too.
		WriteFile(d.out, e.Path, old, Side{})
		WriteFile(d.out, e.Path, Side{}, now)
	case old.Mode != 0 || now.Mode != 0:
		WriteFile(d.out, e.Path, old, now)
	}
	if e.up.isDir() {
		if e.low.isDir() {
			fmt.Fprintf(d.out, "Directory %s: mode %04o to %04o\n", Quote("b/"+e.Path), e.low.mode&0o7777, dirMode(e.up, e.low))
		} else {
			fmt.Fprintf(d.out, "Directory %s: added, mode %04o\n", Quote("b/"+e.Path), dirMode(e.up, e.low))
		}
	}
	return nil // a failed write stays in the bufio.Writer until Flush
}

// read reads one side, nothing for a directory.
func (d *differ) read(t *tree, rel string, n *node) (Side, error) {
	if n == nil || n.isDir() {
		return Side{}, nil
	}
	if n.is(unix.S_IFLNK) {
		target, err := t.readLink(rel)
		return Side{Mode: unix.S_IFLNK, Text: []byte(target), Size: int64(len(target))}, gone(err)
	}
	if !n.is(unix.S_IFREG) {
		// The user's own device or FIFO, replaced or deleted: there is no text.
		return Side{Mode: n.mode & unix.S_IFMT}, nil
	}
	s := Side{Mode: unix.S_IFREG | n.mode&0o777}
	f, now, err := t.regular(rel)
	if err == unix.EACCES && t == d.w.lower {
		s.Huge, s.Unread, s.Size = true, true, n.size
		return s, nil
	}
	if err != nil {
		return Side{}, gone(err)
	}
	defer f.Close()
	s.Size = now.size
	if s.Huge = now.size > d.max; s.Huge {
		return s, nil
	}
	s.Text, err = io.ReadAll(io.LimitReader(f, d.max+1))
	if int64(len(s.Text)) > d.max { // it grew while being read
		s.Huge, s.Text = true, nil
	}
	return s, err
}

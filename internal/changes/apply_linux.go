package changes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Apply makes the changes of upper in the workspace lower.
//
// If any selected path is in conflict (see the package comment) and Force is not set, nothing is
// done and the error is a *ConflictError. Otherwise every file is written beside its place first,
// and renamed into it when all are on disk: it is the old or the new one at every moment. (Where a
// directory becomes a file, or a file a directory, there is a moment with nothing.) Deletions come
// next, the modes of directories last. A failure half way is a *PartialError, and the next Apply
// continues. Applied files get the present time, as times are the sandbox's to choose and tools
// that compare size and time would overlook a change.
func Apply(ctx context.Context, lower, upper string, opts ApplyOptions) (Result, error) {
	sel, err := newSelection(opts.Paths)
	if err != nil {
		return Result{}, err
	}
	w, err := walk(ctx, lower, upper, opts.Masked)
	if err != nil {
		return Result{}, err
	}
	defer w.close()
	a := &applier{ctx: ctx, w: w, opts: opts, res: Result{Stamps: Stamps{}}}
	if err := a.plan(sel); err != nil {
		return a.res, err
	}
	if opts.DryRun {
		for _, e := range a.todo {
			a.res.Applied = append(a.res.Applied, e.Change)
		}
		return a.res, nil
	}
	// The lock keeps two Applies from taking each other's temporary files for leftovers. Some
	// network file systems have no such locks.
	if err := unix.Flock(int(w.lower.root.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
		return a.res, ErrBusy
	}
	if err := a.run(); err != nil {
		return a.res, err
	}
	if opts.Clear {
		return a.res, a.clear()
	}
	return a.res, nil
}

type applier struct {
	ctx  context.Context
	w    *walker
	opts ApplyOptions
	res  Result

	todo  []*entry        // sorted by path
	temps map[*entry]bool // written, not yet renamed
}

// plan decides what to do, and refuses if there are conflicts.
func (a *applier) plan(sel *selection) error {
	chosen := map[string]bool{}
	for _, e := range a.w.entries {
		if sel.match(e.Path) {
			chosen[e.Path] = true
		}
	}
	if err := sel.unmatched(); err != nil {
		return err
	}
	// A file in a new directory cannot be applied without the directory.
	for p := range chosen {
		for dir := path.Dir(p); dir != "." && !chosen[dir]; dir = path.Dir(dir) {
			chosen[dir] = true
		}
	}
	for _, e := range a.w.entries {
		if !chosen[e.Path] || !sel.match(e.Path) && !(e.up.isDir() && !e.low.isDir()) {
			continue
		}
		if e.Skipped != "" {
			a.res.Skipped = append(a.res.Skipped, e.Change)
			continue
		}
		a.todo = append(a.todo, e)
		a.check(e)
	}
	if len(a.res.Conflicts) > 0 && !a.opts.Force {
		return &ConflictError{a.res.Conflicts}
	}
	return nil
}

// check collects conflicts and notes.
func (a *applier) check(e *entry) {
	if e.Target != "" {
		if text := LinkNote(e.Path, e.Target); text != "" {
			a.res.Notes = append(a.res.Notes, Note{e.Path, text})
		}
	}
	if e.up.is(unix.S_IFREG) && e.up.mode&0o6000 != 0 {
		a.res.Notes = append(a.res.Notes, Note{e.Path, "set-user-ID or set-group-ID bit not applied"})
	}
	if e.low == nil || e.low.isDir() {
		return
	}
	if s, ok := a.opts.Known[Quote(e.Path)]; ok && s == e.low.stamp() {
		return // our own write
	}
	taken := e.taken
	if !a.opts.Since.IsZero() {
		taken = min(taken, a.opts.Since.UnixNano())
	}
	if e.low.ctime > taken {
		a.res.Conflicts = append(a.res.Conflicts, e.Path)
	}
}

// run does the work, in an order in which every step finds its ground: a file needs its directory,
// a directory to be removed must be empty, and one that becomes read-only must have its files.
func (a *applier) run() error {
	a.temps = map[*entry]bool{}
	down := func(e *entry) bool { return e.Kind == Deleted || e.low.isDir() && !e.up.isDir() }
	steps := []struct {
		back bool // from the last path to the first
		of   func(*entry) bool
		do   func(*entry, *os.File) error
	}{
		{false, func(e *entry) bool { return e.up != nil }, a.put},
		{false, func(e *entry) bool { return a.temps[e] && !down(e) }, a.rename},
		{true, down, a.remove},
		{true, func(e *entry) bool { return e.up.isDir() }, a.finishDir},
	}
	for i, s := range steps {
		for n := range a.todo {
			if s.back {
				n = len(a.todo) - 1 - n
			}
			if e := a.todo[n]; s.of(e) {
				if err := a.step(e, s.do); err != nil {
					return a.fail(e.Path, err)
				}
			}
		}
		// What is renamed must be on disk, and so must what the caller deletes from the upper.
		if i == 0 && len(a.temps) > 0 || i == len(steps)-1 {
			if err := unix.Syncfs(int(a.w.lower.root.Fd())); err != nil {
				return a.fail(".", err)
			}
		}
	}
	return nil
}

// step opens the workspace directory of an entry and does one thing in it.
func (a *applier) step(e *entry, do func(*entry, *os.File) error) error {
	if err := a.ctx.Err(); err != nil {
		return err
	}
	dir, err := a.w.lower.parent(e.Path)
	if err != nil {
		return gone(err)
	}
	defer dir.Close()
	return do(e, dir)
}

// fail removes what is not in place yet and says what is.
func (a *applier) fail(at string, err error) error {
	for e := range a.temps {
		if dir, err := a.w.lower.parent(e.Path); err == nil {
			_ = removeTemp(dir, tempName(e.Path)) // the next Apply tries again
			dir.Close()
		}
	}
	p := &PartialError{Path: at, Err: err}
	for _, c := range a.res.Applied {
		p.Applied = append(p.Applied, c.Path)
	}
	return p
}

// done notes an entry as applied, and the state in which that left it.
func (a *applier) done(e *entry, dir *os.File) {
	a.res.Applied = append(a.res.Applied, e.Change)
	if e.Kind == Deleted || e.up.isDir() {
		return
	}
	if n, err := statAt(dir, path.Base(e.Path)); err == nil {
		a.res.Stamps[Quote(e.Path)] = n.stamp()
	}
}

// unchanged fails unless the workspace still has at this place what was listed.
func (a *applier) unchanged(e *entry, dir *os.File) error {
	n, err := statAt(dir, path.Base(e.Path))
	now := &n
	if err == unix.ENOENT {
		now, err = nil, nil
	}
	low := e.low
	switch {
	case err != nil:
		return err
	case a.opts.Force && now.isDir() == low.isDir(), now == nil && low == nil:
		return nil
	case now == nil || low == nil || now.ino != low.ino:
	case now.isDir() && low.isDir():
		return nil // its ctime changes as we work in it
	case now.mode == low.mode && now.size == low.size && now.mtime == low.mtime:
		return nil // not the ctime: replacing one hard link moves that of the others
	}
	return fmt.Errorf("workspace: %w", ErrChanged)
}

// remove deletes a workspace entry; a directory only if it is empty by now. What takes its place
// is renamed there.
func (a *applier) remove(e *entry, dir *os.File) error {
	if err := a.unchanged(e, dir); err != nil {
		return err
	}
	flags := 0
	if e.low.isDir() {
		flags = unix.AT_REMOVEDIR
	}
	err := unix.Unlinkat(int(dir.Fd()), path.Base(e.Path), flags)
	switch {
	case err == unix.ENOTEMPTY || err == unix.EEXIST:
		return fmt.Errorf("workspace: %w: %w", ErrChanged, err)
	case err != nil && err != unix.ENOENT:
		return err
	case e.Kind != Deleted:
		return a.move(e, dir, unix.RENAME_NOREPLACE)
	}
	a.done(e, dir)
	return nil
}

// rename moves a file into place, over what was listed there and over nothing else. For a new one
// the kernel guarantees it; for a replaced one a write by the user between the look and the rename
// (microseconds) is lost.
func (a *applier) rename(e *entry, dir *os.File) error {
	if err := a.unchanged(e, dir); err != nil {
		return err
	}
	if e.low == nil && !a.opts.Force {
		return a.move(e, dir, unix.RENAME_NOREPLACE)
	}
	return a.move(e, dir, 0)
}

func (a *applier) move(e *entry, dir *os.File, flags uint) error {
	fd, temp, name := int(dir.Fd()), tempName(e.Path), path.Base(e.Path)
	err := unix.Renameat2(fd, temp, fd, name, flags)
	if err == unix.EINVAL { // a file system without flags
		err = unix.Renameat(fd, temp, fd, name)
	}
	if err == unix.EEXIST {
		err = fmt.Errorf("workspace: %w", ErrChanged)
	}
	if err == nil {
		delete(a.temps, e)
		a.done(e, dir)
	}
	return err
}

// gone turns the errors of a path that was replaced into ErrChanged.
func gone(err error) error {
	switch err {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EINVAL, unix.ENXIO:
		return errors.Join(ErrChanged, err)
	}
	return err
}

package changes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// Apply makes the changes of upper in the workspace lower.
//
// If any selected path is in conflict (see the package comment) and Force is not
// set, nothing is done and the error is a *ConflictError. Otherwise additions
// come first, deletions after them, the modes of directories last. Every file is
// written beside its place and renamed into it, so it is the old or the new one
// at every moment; a failure half way is a *PartialError, and the next Apply
// continues. Applied files get the present time, as times are the sandbox's to
// choose and tools that compare size and time would overlook a change.
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
	// The lock keeps two Applies from taking each other's temporary files for
	// leftovers. Where there are no such locks (some network file systems) go on.
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

	todo    []*entry // sorted by path
	pending []staged // written, not yet renamed
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
		a.res.Conflicts = append(a.res.Conflicts, Conflict{e.Path, time.Unix(0, e.low.ctime), time.Unix(0, taken)})
	}
}

// run does the work, in an order in which every step finds its ground: what is
// added needs its directory, a directory to be removed must be empty, and one
// that becomes read-only must have got its files.
func (a *applier) run() error {
	for _, e := range a.todo {
		if e.Kind == Deleted || e.low.isDir() && !e.up.isDir() {
			continue
		}
		if err := a.step(e, a.put); err != nil {
			return err
		}
	}
	if err := a.commit(); err != nil {
		return a.fail("", err) // commit knows the path
	}
	for i := len(a.todo) - 1; i >= 0; i-- {
		e := a.todo[i]
		do := a.remove
		switch {
		case e.Kind == Deleted:
		case e.low.isDir() && !e.up.isDir():
			do = a.replaceDir
		default:
			continue
		}
		if err := a.step(e, do); err != nil {
			return err
		}
	}
	for i := len(a.todo) - 1; i >= 0; i-- {
		if e := a.todo[i]; e.up.isDir() {
			if err := a.step(e, a.finishDir); err != nil {
				return err
			}
		}
	}
	// The caller may now delete the upper: what it held must be on disk first.
	if err := unix.Syncfs(int(a.w.lower.root.Fd())); err != nil {
		return a.fail(".", err)
	}
	return nil
}

// step opens the workspace directory of an entry and does one thing in it.
func (a *applier) step(e *entry, do func(*entry, *os.File) error) error {
	err := a.ctx.Err()
	if err == nil {
		var dir *os.File
		if dir, err = a.w.lower.open(parent(e.Path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC); err != nil {
			err = gone(err)
		} else {
			err = do(e, dir)
			if !a.holds(dir) {
				dir.Close()
			}
		}
	}
	if err != nil {
		return a.fail(e.Path, err)
	}
	return nil
}

// fail takes back what is not in place yet and says what is.
func (a *applier) fail(at string, err error) error {
	a.drop()
	p := &PartialError{Path: at, Err: err}
	if s := (*stagedError)(nil); errors.As(err, &s) {
		p.Path, p.Err = s.path, s.err
	}
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

// unchanged says whether the workspace still has at this place what was listed.
func (a *applier) unchanged(e *entry, dir *os.File) error {
	now, err := statMaybe(dir, path.Base(e.Path))
	if err != nil {
		return err
	}
	switch {
	case a.opts.Force && now.isDir() == e.low.isDir():
		return nil
	case now == nil && e.low == nil:
		return nil
	case now != nil && e.low != nil && now.isDir() && e.low.isDir() && now.ino == e.low.ino:
		return nil // a directory's ctime changes as we work in it
	case now != nil && e.low != nil && now.ino == e.low.ino && now.mode == e.low.mode &&
		now.size == e.low.size && now.mtime == e.low.mtime:
		return nil // not the ctime: replacing one hard link moves that of the others
	}
	return fmt.Errorf("workspace: %w", ErrChanged)
}

// remove deletes a workspace entry; a directory only if it is empty by now.
func (a *applier) remove(e *entry, dir *os.File) error {
	if err := a.unchanged(e, dir); err != nil {
		return err
	}
	flags := 0
	if e.low.isDir() {
		flags = unix.AT_REMOVEDIR
	}
	err := unix.Unlinkat(int(dir.Fd()), path.Base(e.Path), flags)
	if err == unix.ENOTEMPTY || err == unix.EEXIST {
		return fmt.Errorf("workspace: %w: %w", ErrChanged, err)
	}
	if err != nil && err != unix.ENOENT {
		return err
	}
	a.done(e, dir)
	return nil
}

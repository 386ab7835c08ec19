package rootfs

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// A program may hold a directory of a worktree that was taken away, and go on to read in it. So
// the mount is kept by descriptor: what appears is hidden in this very mount, wherever it hangs,
// and if the worktree is shown again after all, it is this mount that comes back.

// lates are the worktrees that came late, or were taken away.
type lates struct {
	mu    sync.Mutex
	trees map[string]int     // their mounts, by their places
	away  map[string][]moved // what was taken away with each of them
}

// moved is a mount that was moved out of sight, and where from.
type moved struct {
	place string
	mount int
}

// keep keeps the mount of a worktree. The lock is held.
func (l *lates) keep(at string, mount int) error {
	own, err := unix.FcntlInt(uintptr(mount), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if l.trees == nil {
		l.trees, l.away = map[string]int{}, map[string][]moved{}
	}
	if old, ok := l.trees[at]; ok {
		unix.Close(old)
	}
	l.trees[at] = own
	return nil
}

// forget is for a worktree that is no more. The lock is held.
func (l *Layers) forget(at string) {
	if mount, ok := l.lates.trees[at]; ok {
		unix.Close(mount)
	}
	for _, m := range l.lates.away[at] {
		unix.Close(m.mount)
	}
	delete(l.lates.trees, at)
	delete(l.lates.away, at)
	l.forgetView(at)
}

// Conceal takes away what was shown late, or by the start, and keeps it for [Layers.Restore].
// It has to be there: who moved it elsewhere would go on to see it.
func (l *Layers) Conceal(late *Late) error { return l.conceal(late, true) }

// Discard takes away what there is of a worktree that is no more, or was never seen.
func (l *Layers) Discard(late *Late) error {
	err := l.conceal(late, false)
	l.lates.mu.Lock()
	defer l.lates.mu.Unlock()
	l.forget(late.At)
	return err
}

func (l *Layers) conceal(late *Late, seen bool) error {
	l.lates.mu.Lock()
	defer l.lates.mu.Unlock()
	top, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	r := root{top}
	if mount, ok := l.lates.trees[late.At]; ok && seen {
		if there, err := r.shows(late.At, mount); err != nil || !there {
			return errors.Join(errors.New("it is not where it was shown"), err)
		}
	}
	var all []error
	for _, place := range late.places() {
		mount, err := l.takeAway(r, place)
		switch {
		case err != nil:
		case mount >= 0 && place == late.At:
			err = l.lates.keep(late.At, mount)
		case mount < 0 && place == late.At && seen:
			err = errors.New("it is not where it was shown")
		}
		if err != nil {
			all = append(all, fmt.Errorf("take away %s: %w", filepath.Base(place), err))
		}
		if mount >= 0 {
			if l.lates.away == nil {
				l.lates.away = map[string][]moved{}
			}
			l.lates.away[late.At] = append(l.lates.away[late.At], moved{place, mount})
		}
	}
	// Its empty directory too, if it is that.
	if above, err := r.open(filepath.Dir(late.At)); err == nil {
		_ = unix.Unlinkat(above, filepath.Base(late.At), unix.AT_REMOVEDIR)
		unix.Close(above)
	}
	return errors.Join(all...)
}

// takeAway moves what is mounted in a place out of sight, and after it what occupied the place
// before. It returns the first, or -1.
func (l *Layers) takeAway(r root, place string) (mount int, err error) {
	mount = -1
	for range 2 {
		at, err := r.open(place)
		if errors.Is(err, unix.ENOENT) {
			return mount, nil
		}
		if err != nil {
			return mount, err
		}
		mounted, err := isMount(at)
		if mounted {
			err = l.stow(at)
		}
		if mounted && err == nil && mount < 0 {
			mount = at
		} else {
			unix.Close(at)
		}
		if err != nil || !mounted {
			return mount, err
		}
	}
	return mount, nil
}

// Restore shows again what Conceal has taken away. If it cannot, all of it stays away.
func (l *Layers) Restore(late *Late) error {
	a, err := l.assembly(nil)
	if err != nil {
		return err
	}
	defer a.close()
	l.lates.mu.Lock()
	defer l.lates.mu.Unlock()
	all := l.lates.away[late.At]
	if len(all) == 0 || all[0].place != late.At {
		return errors.New("it was not taken away")
	}
	// The worktree comes last, as it does when it is new.
	all = append(all[1:len(all):len(all)], all[0])
	for i, m := range all {
		if err := a.restore(late, m); err != nil {
			for _, back := range all[:i] {
				err = errors.Join(err, l.stow(back.mount))
			}
			return err
		}
	}
	for _, m := range all {
		unix.Close(m.mount)
	}
	delete(l.lates.away, late.At)
	return nil
}

// restore moves one mount back.
func (a *assembly) restore(late *Late, m moved) error {
	var at int
	var err error
	if m.place == late.At {
		at, err = a.place(late)
	} else {
		at, err = a.root.open(m.place)
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return attach(m.mount, at)
}

package rootfs

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A name of a copy-on-write view that is covered, and does not exist any more outside, is still
// there for the kernel. It is freed without a moment in which somebody could read what it was:
//
// A file is removed through the view, by a thread that does not see the cover: then the kernel
// forgets the name first and takes the cover away after that.
//
// A directory cannot be removed so. The kernel reads it first, to see whether it is empty, and
// one that was removed outside cannot be read. That is how it is told from one that was moved
// elsewhere, which has all that was in it and stays covered. In one that was removed nothing can
// be found or made, ever, so its cover is taken away, and then the kernel is made to forget what
// it remembers of the view. It does not while a program stands there, since before it was covered
// or since this very moment; then it is tried again when the next program starts.
//
// Both leave a mark in the layer that the sandbox has removed it, so that what appears there
// outside is not seen. For a name that is hidden that is never applied. Where no line hides the
// name it would be, so there no mark is left, and who asks for it has to see to it that what
// appears outside from now on is covered after this.

// freed is what is left to do for names that were freed, or could not be yet.
type freed struct {
	names map[string]bool // and whether no mark may be left
	views map[string]bool // of which the kernel remembers what is no more
	some  atomic.Bool     // there are any
}

// Free uncovers a name of a copy-on-write view of which there is nothing outside any more. In
// other views the kernel does that. clean says that no mark may be left. After that [Layers.Settle]
// has to be called: it may take a while, and what is to be hidden need not wait for it.
func (l *Layers) Free(target string, clean bool) error {
	l.lates.mu.Lock()
	defer l.lates.mu.Unlock()
	defer l.freed.note()
	return l.free(target, clean)
}

// note notes whether there is something left to do.
func (f *freed) note() { f.some.Store(len(f.names)+len(f.views) > 0) }

// Settle has the kernel forget names that were freed. Somebody may look at one just then, so it is
// tried a few times, if there is time.
func (l *Layers) Settle(times int) {
	for i := 0; i < times && l.freed.some.Load(); i++ {
		if i > 0 {
			time.Sleep(time.Millisecond << i)
		}
		if l.freeLeft() == 0 {
			return
		}
	}
}

// freeLeft tries again to free names that could not be, and says how many views had to be
// forgotten for that.
func (l *Layers) freeLeft() int {
	l.lates.mu.Lock()
	names := maps.Clone(l.freed.names)
	l.lates.mu.Unlock()
	for target := range names {
		l.lates.mu.Lock()
		if clean, ok := l.freed.names[target]; ok { // it is not hidden again
			_ = l.free(target, clean) // it stays as it is then
		}
		l.lates.mu.Unlock()
	}
	l.lates.mu.Lock()
	views := l.freed.views
	l.freed.views = nil
	l.freed.note()
	l.lates.mu.Unlock()
	for top := range views {
		_ = forget(top)
	}
	return len(views)
}

func (l *Layers) free(target string, clean bool) error {
	delete(l.freed.names, target)
	top, layer, ok := l.overlays.holding(target)
	if !ok {
		return nil
	}
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	s, err := root{fd}.spot(top, target)
	if err == nil {
		defer unix.Close(s.dir)
		s.layer, s.clean = layer, clean
		err = l.freeSpot(root{fd}, s)
	}
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, errUncovered):
		return nil
	case err != nil:
		return fmt.Errorf("free %s: %w", target, err)
	}
	return nil
}

// A spot is a name in a directory of a view. The directory is open: programs inside may move it.
type spot struct {
	top, layer, rel string
	dir             int
	name            string
	clean           bool
}

func (s *spot) target() string { return filepath.Join(s.top, s.rel) }

var errUncovered = errors.New("it is not covered")

// spot opens the directory of a name, which has to be of the view itself: what is mounted
// there may be the user's own, and removed is removed.
func (r root) spot(top, target string) (*spot, error) {
	at, err := r.open(top)
	if err != nil {
		return nil, err
	}
	defer unix.Close(at)
	dir, err := r.open(filepath.Dir(target))
	if err != nil {
		return nil, err
	}
	var view, here unix.Stat_t
	err = errors.Join(unix.Fstat(at, &view), unix.Fstat(dir, &here))
	if err == nil && view.Dev != here.Dev {
		err = errUncovered
	}
	if err != nil {
		unix.Close(dir)
		return nil, err
	}
	return &spot{top: top, rel: strings.TrimPrefix(target, top+"/"), dir: dir, name: filepath.Base(target)}, nil
}

// cover opens what covers the name.
func (s *spot) cover(r root) (at int, dir bool, err error) {
	at, err = unix.Openat(s.dir, s.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, false, err
	}
	ours := false
	if dir, err = isDir(at); err == nil {
		var from int
		if from, err = nothing(r, dir); err == nil {
			ours, err = covered(at, from)
			unix.Close(from)
		}
	}
	if err != nil || !ours {
		unix.Close(at)
		return -1, dir, errors.Join(errUncovered, err)
	}
	return at, dir, nil
}

func (l *Layers) freeSpot(r root, s *spot) error {
	at, dir, err := s.cover(r)
	if errors.Is(err, errUncovered) {
		if dead, err := s.dead(); err != nil || !dead {
			return err
		}
		l.leave(s, true) // it was uncovered earlier, and a program looked at it, or stands there
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if !dir {
		err := apart(func(r root) error { return s.remove(r) })
		if err == nil && s.clean {
			l.stale(s.top) // a program may have seen the mark
			return l.unmark(s)
		}
		if err != unix.ESTALE {
			return err
		}
		// What is below the cover was made to be covered, see shadow, and the layer has nothing
		// of it any more.
	}
	if harmless, err := s.dead(); err != nil || !harmless {
		l.leave(s, false)
		return err
	}
	if has, err := l.has(s); err != nil || has {
		return err // files of the sandbox's own are in it
	}
	if !s.clean {
		if err := l.mark(s); err != nil {
			return err
		}
	}
	l.leave(s, true)
	return unix.Unmount(fmt.Sprintf("/proc/self/fd/%d", at), unix.MNT_DETACH)
}

// leave notes a name that is to be looked at again, and whether the kernel has to forget it.
func (l *Layers) leave(s *spot, stale bool) {
	if l.freed.names == nil {
		l.freed.names = map[string]bool{}
	}
	l.freed.names[s.target()] = s.clean
	if stale {
		l.stale(s.top)
	}
}

// stale notes a view of which the kernel remembers what is no more.
func (l *Layers) stale(top string) {
	if l.freed.views == nil {
		l.freed.views = map[string]bool{}
	}
	l.freed.views[top] = true
}

// remove takes the cover from a file, and then removes what is below.
func (s *spot) remove(r root) error {
	here, err := r.spot(s.top, s.target())
	if err != nil {
		return err
	}
	defer unix.Close(here.dir)
	at, dir, err := here.cover(r)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if dir {
		return errUncovered // another thing by now
	}
	if err := unix.Unmount(fmt.Sprintf("/proc/self/fd/%d", at), unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Unlinkat(here.dir, here.name, 0)
}

// dead says whether nothing can be read or made in what is there, be it covered or not: a
// directory that was removed, or an empty file that was.
func (s *spot) dead() (bool, error) {
	// A second view of the directory, without what is mounted in it.
	bare, err := unix.OpenTree(s.dir, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err == unix.EINVAL {
		return false, nil // there are mounts of the host below it, which cannot be left out
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(bare)
	at, err := unix.Openat(bare, s.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return false, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink == 0 && st.Size == 0, nil
	}
	fd, err := unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.EACCES {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	// Every directory that is there has at least itself in it.
	_, err = unix.ReadDirent(fd, make([]byte, 4096))
	return err == unix.ENOENT, nil
}

// forget has the kernel forget what it remembers of a view and nobody uses, as it does when
// memory is short: any change of a file system's settings begins with that, one of none too.
func forget(top string) error {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	at, err := root{fd}.open(top)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	fs, err := unix.Fspick(at, "", unix.FSPICK_EMPTY_PATH|unix.FSPICK_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open the view's settings: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigReconfigure(fs); err != nil {
		return fmt.Errorf("set the view's settings: %w", reason(fs, err))
	}
	return nil
}

// apart does something in a copy of the mount namespace that nobody else sees.
func apart(do func(root) error) error {
	runtime.LockOSThread()
	back, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer unix.Close(back)
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("copy the mount namespace: %w", err)
	}
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = do(root{fd})
		unix.Close(fd)
	}
	if back := unix.Setns(back, unix.CLONE_NEWNS); back != nil {
		return errors.Join(err, back) // and the thread, which stays locked, ends with its goroutine
	}
	runtime.UnlockOSThread()
	return err
}

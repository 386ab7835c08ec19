package rootfs

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Below a copy-on-write view the user's directory changes, and the kernel does not hear of it:
// it goes by what it found when a program last looked for a name, for as long as it remembers.
// How long that is, programs inside can bring about, by looking for many names. So two things
// are done about names that are to be hidden:
//
// One that a program has looked for in vain, and that exists by now, is not there to be
// covered, but will be. So something is made in its place through the view, covered, and
// removed from the layer again. Nobody sees the difference, and the next start finds the
// layer as it was.
//
// One that is covered, and does not exist any more, is still there for the kernel. It is
// removed through the view, by a thread that does not see the cover: then the kernel forgets
// the name first and takes the cover away after that. That leaves a mark in the layer that the
// sandbox has removed the file, which for a name that is hidden is never applied.

// overlays are the copy-on-write views, by their places: the names of their layers.
type overlays map[string]string

// holding is the view that a path is in.
func (o overlays) holding(path string) (top, layer string, ok bool) {
	for at, name := range o {
		if Within(path, at) && path != at && len(at) >= len(top) {
			top, layer, ok = at, name, true
		}
	}
	return top, layer, ok
}

// inView says that a directory is of the view itself, and not of something that is mounted
// there.
func (r root) inView(top, dir string) (bool, error) {
	var st [2]unix.Stat_t
	for i, path := range []string{top, dir} {
		fd, err := r.open(path)
		if err != nil {
			return false, err
		}
		err = unix.Fstat(fd, &st[i])
		unix.Close(fd)
		if err != nil {
			return false, err
		}
	}
	return st[0].Dev == st[1].Dev, nil
}

// upper opens something of a view's layer.
func (l *Layers) upper(layer, rel string) (int, error) {
	return l.root.open(filepath.Join("/", layer, "upper", rel))
}

// own says that the sandbox has something of its own in the place of a file: another file, or
// a mark that it was removed.
func (l *Layers) own(layer, rel string) (bool, error) {
	fd, err := l.upper(layer, rel)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	dir, err := isDir(fd)
	return !dir, err
}

// forbidInView covers a place in a copy-on-write view.
func (l *Layers) forbidInView(r root, target string, dir bool) error {
	top, layer, ok := l.overlays.holding(target)
	if !ok {
		return forbid(r, target)
	}
	if in, err := r.inView(top, filepath.Dir(target)); err == nil && !in {
		return forbid(r, target)
	}
	rel := strings.TrimPrefix(target, top+"/")
	if own, err := l.own(layer, rel); err != nil {
		return err
	} else if own {
		// It is seen for as long as the directories above are remembered as they are.
		return l.anchor(r, top, Above(rel))
	}
	for range 100 {
		err := forbid(r, target)
		if !errors.Is(err, unix.ENOENT) {
			return err
		}
		if err = l.shadow(r, top, layer, rel, dir); !errors.Is(err, errRaced) {
			return err
		}
	}
	return errors.New("programs inside make it and remove it all the time")
}

var errRaced = errors.New("a program inside was faster")

// shadow covers a name that is not there yet, or the first directory on the way to it that is
// not.
func (l *Layers) shadow(r root, top, layer, rel string, dir bool) error {
	parts := strings.Split(rel, "/")
	for i := range parts {
		at := filepath.Join(append([]string{top}, parts[:i+1]...)...)
		fd, err := r.open(at)
		if err == nil {
			unix.Close(fd)
			continue
		}
		if !errors.Is(err, unix.ENOENT) {
			return err
		}
		rel := filepath.Join(parts[:i+1]...)
		if own, err := l.own(layer, rel); err != nil || own {
			return err // removed inside, and that is remembered for good
		}
		if in, err := r.inView(top, filepath.Dir(at)); err != nil || !in {
			return errors.Join(unix.ENOENT, err)
		}
		return l.shadowOne(r, at, layer, rel, dir || i < len(parts)-1)
	}
	return errRaced // it is there after all
}

func (l *Layers) shadowOne(r root, at, layer, rel string, dir bool) error {
	parent, err := r.open(filepath.Dir(at))
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	name, flag := filepath.Base(at), 0
	if dir {
		flag = unix.AT_REMOVEDIR
		err = unix.Mkdirat(parent, name, 0o700)
	} else {
		err = unix.Mknodat(parent, name, unix.S_IFREG, 0)
	}
	switch {
	case err == unix.EEXIST:
		return errRaced
	case err == unix.ENOENT:
		return err // its directory is gone as well
	case err != nil:
		return fmt.Errorf("make something in its place: %w", err)
	}
	err = forbid(r, at)
	if errors.Is(err, unix.ENOENT) {
		return errRaced
	}
	// Covered or not: it must not look like something that the sandbox has made.
	return errors.Join(err, l.takeBack(layer, rel, flag))
}

// takeBack removes from a layer what was made there.
func (l *Layers) takeBack(layer, rel string, flag int) error {
	up, err := l.upper(layer, filepath.Dir(rel))
	if err != nil {
		return err
	}
	defer unix.Close(up)
	err = unix.Unlinkat(up, filepath.Base(rel), flag)
	if err == unix.ENOENT || err == unix.ENOTEMPTY || err == unix.EEXIST {
		return nil // somebody inside has used it: it is theirs
	}
	return err
}

// Free uncovers a name of a copy-on-write view whose file is not there any more outside. In
// other views the kernel does that. A directory stays covered: the kernel removes none of
// which it cannot tell that it is empty.
func (l *Layers) Free(target string) error {
	if _, _, ok := l.overlays.holding(target); !ok {
		return nil
	}
	l.lates.mu.Lock()
	defer l.lates.mu.Unlock()
	err := apart(func(r root) error { return remove(r, target) })
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, errUncovered):
		return nil
	case errors.Is(err, unix.ESTALE):
		return nil // a shadow, of which the layer has nothing: it stays covered
	case err != nil:
		return fmt.Errorf("free %s: %w", target, err)
	}
	return nil
}

var errUncovered = errors.New("it is not covered")

// remove takes the cover from a file, and then removes what is below.
func remove(r root, target string) error {
	at, err := r.open(target)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	from, err := nothing(r, false)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	if ours, err := covered(at, from); err != nil || !ours {
		return errors.Join(errUncovered, err)
	}
	if err := unix.Unmount(fmt.Sprintf("/proc/self/fd/%d", at), unix.MNT_DETACH); err != nil {
		return err
	}
	parent, err := r.open(filepath.Dir(target))
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	return unix.Unlinkat(parent, filepath.Base(target), 0)
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

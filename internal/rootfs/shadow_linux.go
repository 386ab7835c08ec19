package rootfs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Below a copy-on-write view the user's directory changes, and the kernel does not hear of it:
// it goes by what it found when a program last looked for a name, for as long as it remembers.
// How long that is, programs inside can bring about, by looking for many names.
//
// A name to hide that a program has looked for in vain, and that exists by now, is not there to
// be covered, but will be. So something is made in its place through the view, covered, and
// removed from the layer again. Nobody sees the difference, and the next start finds the
// layer as it was.

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
	delete(l.freed.names, target)
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
		return l.shadowOne(r, top, at, layer, rel, dir || i < len(parts)-1)
	}
	return errRaced // it is there after all
}

func (l *Layers) shadowOne(r root, top, at, layer, rel string, dir bool) error {
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
	case err == unix.ESTALE:
		// A mark was there that it is removed, and was taken back when it was freed.
		return errors.Join(errRaced, forget(top))
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

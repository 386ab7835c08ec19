package mask

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// A Tree is a directory that a sandbox may be writing. Everything in it is opened from its root in
// one resolution that follows no link.
type Tree struct {
	Set  *Set
	Root string
	// Top says that a repository at the root is told of as those further down are.
	Top bool
	fd  int

	events *fsnotify.Watcher // nil before Listen
}

// Open opens a tree to ask a set about.
func Open(root string, s *Set) (*Tree, error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("look for files to hide: open %s: %w", root, err)
	}
	return &Tree{Set: s, Root: root, fd: fd}, nil
}

// Close lets go of the tree.
func (t *Tree) Close() {
	unix.Close(t.fd)
	if t.events != nil {
		t.events.Close()
	}
}

// open opens an entry, "" for the root.
func (t *Tree) open(path string, flags uint64, resolve uint64) (int, error) {
	if path == "" {
		path = "."
	}
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NONBLOCK | unix.O_NOCTTY // whatever it is, it must not keep us
	}
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: resolve | unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	for range 100 {
		fd, err := unix.Openat2(t.fd, path, &how)
		if err != unix.EAGAIN && err != unix.EINTR { // something was renamed meanwhile
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}

// read reads a regular file, up to a limit and one byte more.
func (t *Tree) read(path string, limit int64) ([]byte, error) {
	fd, err := t.open(path, unix.O_RDONLY, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// stat looks at an entry itself.
func (t *Tree) stat(path string) (st unix.Stat_t, err error) {
	fd, err := t.open(path, unix.O_PATH, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	return st, unix.Fstat(fd, &st)
}

// Gone says that there is nothing of this path in the tree.
func (t *Tree) Gone(path string) bool {
	_, err := t.stat(path)
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// confirms says whether a file is what a rule is about. One that cannot be read is.
func (t *Tree) confirms(r *Rule, path string) bool {
	if !r.Looks() {
		return true
	}
	content, err := t.read(path, maxLook)
	return err != nil && !errors.Is(err, unix.ENOENT) || r.Confirms(content)
}

// Hides returns the rule by which something in the tree, or something that was, is hidden.
func (t *Tree) Hides(path string, dir bool) *Rule {
	return t.Set.Hides(path, dir, func(r *Rule) bool { return t.confirms(r, path) })
}

// behind is where a hidden link leads to in the tree, "" if it leads elsewhere: what is
// behind it is what was to be hidden.
func (t *Tree) behind(path string) (target string, dir bool) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(t.fd, path, &how)
	if err != nil {
		return "", false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	root, err2 := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", t.fd))
	if err != nil || err2 != nil || unix.Fstat(fd, &st) != nil {
		return "", false
	}
	target, ok := strings.CutPrefix(real, strings.TrimSuffix(root, "/")+"/")
	if !ok || target == path || target == ".git" || strings.HasPrefix(target, ".git/") {
		return "", false
	}
	return target, st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// leads is the directory that a link leads to, "" unless it is in one that is not entered: what
// the user writes below the link lands there.
func (t *Tree) leads(link string) string {
	to, dir := t.behind(link)
	if !dir {
		return ""
	}
	parts := strings.Split(to, "/")
	for i, name := range parts {
		if !t.Set.In(path.Join(parts[:i]...)).Enters(name) {
			return to
		}
	}
	return ""
}

// which is [which] for a path in the tree.
func (t *Tree) which(path string) (w Which, kind uint16, names uint32) {
	fd, err := t.open(path, unix.O_PATH, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return w, 0, 0
	}
	defer unix.Close(fd)
	return which(fd, "")
}

// readRules adds the file of a directory that says what to hide.
func (t *Tree) readRules(dir string) (fresh bool, err error) {
	path := join(dir, FileName)
	text, err := t.read(path, MaxFile)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ELOOP):
		return false, nil // gone, or a link, which could lead anywhere
	case err != nil:
		return false, &FileError{t.Root, path, err.Error()}
	case len(text) > MaxFile:
		return false, &FileError{t.Root, path, fmt.Sprintf("it has more than %d bytes", MaxFile)}
	}
	if fresh, err = t.Set.Add(dir, string(text)); errors.Is(err, ErrTooMany) {
		err = &FileError{t.Root, path, "with it there are too many lines"}
	} else if errors.Is(err, ErrPattern) {
		err = nil // it hides nothing, for git either
	}
	return fresh, err
}

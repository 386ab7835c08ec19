package safepath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A TreeError says what RemoveTree could not delete: the first path, and why.
// One that matches fs.ErrPermission is worth another try in a user namespace that
// maps the uids of the sandbox.
type TreeError struct {
	Path string
	Err  error
}

func (e *TreeError) Error() string {
	// Quoted, for the names were chosen by a stranger and go to a terminal.
	return fmt.Sprintf("cannot remove %q: %v", e.Path, e.Err)
}

func (e *TreeError) Unwrap() error { return e.Err }

var errMountPoint = errors.New("something is mounted there")

const (
	// maxOpen is how many levels keep their directory open. Deeper ones are
	// closed on the way down and found again on the way up.
	maxOpen = 64
	// maxFailures ends a hopeless attempt before its notes fill the memory.
	maxFailures = 1000
	// maxRetries is for file systems that skip entries of a directory from
	// which others are being deleted.
	maxRetries = 3
)

// RemoveTree deletes a file or a folder with all that is in it, written by
// whomever. It follows no link, crosses no mount, opens folders whose mode forbids
// it (if we own them), and needs a bounded number of files however deep the tree
// is. It deletes what it can and returns a *TreeError for the first thing that it
// cannot. A path that does not exist is fine.
//
// os.RemoveAll does not do: it gives up on folders without permissions, such as
// overlayfs leaves behind, and walks into mounts.
func RemoveTree(path string) error {
	path = filepath.Clean(path)
	parent, name := filepath.Split(path)
	if name == "" || name == "." || name == ".." {
		return &TreeError{path, fs.ErrInvalid}
	}
	if parent == "" {
		parent = "."
	}
	fd, err := unix.Open(parent, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &TreeError{path, err}
	}
	return removeIn(fd, parent, name)
}

// RemoveIn is [RemoveTree] for a name in an open directory.
func RemoveIn(dir *os.File, name string) error {
	fd, err := unix.Openat(int(dir.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &TreeError{name, err}
	}
	return removeIn(fd, dir.Name(), name)
}

// removeIn removes a name in the directory fd, which it closes.
func removeIn(fd int, parent, name string) error {
	// The parent is a level of which only one name is to be deleted.
	r := remover{parent: parent, levels: []level{{fd: fd, names: []string{name}, listed: true}}}
	r.run()
	if r.first != nil {
		return r.first
	}
	return nil
}

// A remover walks a tree depth first with a stack of its own, so that a tree made
// deep on purpose exhausts neither files nor stack.
type remover struct {
	parent   string
	levels   []level
	first    *TreeError
	failures int
	buf      []byte
}

// A level is one directory on the way from the top to where we are.
type level struct {
	name    string
	fd      int             // -1 while closed
	self    inode           // to recognize it when it is opened again
	names   []string        // read, and yet to be deleted
	listed  bool            // nothing more to read
	stuck   map[string]bool // names that cannot be deleted
	retries int
}

type inode struct{ dev, ino uint64 }

func (r *remover) run() {
	for r.failures < maxFailures {
		top := &r.levels[len(r.levels)-1]
		if name, ok := r.next(top); ok {
			r.remove(top, name)
		} else if len(r.levels) == 1 || !r.leave() {
			break
		}
	}
	for _, l := range r.levels {
		if l.fd >= 0 {
			unix.Close(l.fd)
		}
	}
}

// next returns the next name to delete in a directory.
func (r *remover) next(l *level) (string, bool) {
	for {
		for len(l.names) > 0 {
			name := l.names[0]
			l.names = l.names[1:]
			if !l.stuck[name] {
				return name, true
			}
		}
		if l.listed {
			return "", false
		}
		if r.buf == nil {
			r.buf = make([]byte, 4<<10) // enough for what most throw-aways leave
		}
		n, err := unix.ReadDirent(l.fd, r.buf)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOENT): // another deleted it
			l.listed = true
		case err != nil:
			r.fail("", err)
			l.listed = true
		case n <= 0:
			l.listed = true
		default:
			_, _, l.names = unix.ParseDirent(r.buf[:n], -1, nil)
			if n > len(r.buf)/2 && len(r.buf) < 32<<10 {
				r.buf = make([]byte, 32<<10)
			}
		}
	}
}

// remove deletes a file, or makes a directory the next level.
func (r *remover) remove(top *level, name string) {
	err := unix.Unlinkat(top.fd, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return
	}
	switch enterErr := r.enter(top, name, 0); {
	case enterErr == nil, errors.Is(enterErr, unix.ENOENT):
	case errors.Is(enterErr, unix.ENOTDIR), errors.Is(enterErr, unix.ELOOP):
		r.fail(name, err) // no directory, so the first answer is the reason
	case errors.Is(enterErr, unix.EXDEV):
		r.fail(name, errMountPoint)
	case unix.Unlinkat(top.fd, name, unix.AT_REMOVEDIR) == nil:
		// Somebody else's, closed to us, but empty.
	default:
		r.fail(name, enterErr)
	}
}

// enter opens a directory for deleting what is in it, and goes there.
func (r *remover) enter(top *level, name string, retries int) error {
	fd, err := openDir(top.fd, name, unix.O_RDONLY)
	if errors.Is(err, unix.EACCES) && chmodDir(top.fd, name) == nil {
		fd, err = openDir(top.fd, name, unix.O_RDONLY)
	}
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return err
	}
	if st.Mode&0o700 != 0o700 {
		_ = unix.Fchmod(fd, 0o700) // if that fails, deleting will, and say so
	}
	if len(r.levels) >= maxOpen {
		unix.Close(top.fd)
		// What was read is read again later, so that depth times width is not
		// kept in memory either.
		top.fd, top.names, top.listed = -1, nil, false
	}
	r.levels = append(r.levels, level{name: name, fd: fd, self: inodeOf(&st), retries: retries})
	return nil
}

// leave deletes the directory we are in, emptied as far as it can be, and goes
// back to the one above. It is false if that one cannot be found any more.
func (r *remover) leave() bool {
	done := r.levels[len(r.levels)-1]
	up := &r.levels[len(r.levels)-2]
	if up.fd < 0 {
		fd, err := reopen(done.fd, up.self)
		if err != nil {
			r.fail("", err)
			return false
		}
		up.fd = fd
	}
	unix.Close(done.fd)
	r.levels = r.levels[:len(r.levels)-1]

	err := unix.Unlinkat(up.fd, done.name, unix.AT_REMOVEDIR)
	full := errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
	case full && len(done.stuck) > 0:
		up.keep(done.name) // what is in there has been reported
	case full && done.retries < maxRetries && r.enter(up, done.name, done.retries+1) == nil:
	default:
		r.fail(done.name, err)
	}
	return true
}

// reopen goes up. The tree may be changed under our feet, by a process that was
// to be dead; then ".." is not where we came from, and we stay out of it.
func reopen(fd int, want inode) (int, error) {
	up, err := openDir(fd, "..", unix.O_RDONLY)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(up, &st); err == nil && inodeOf(&st) != want {
		err = errors.New("it was moved while being deleted")
	}
	if err != nil {
		unix.Close(up)
		return -1, err
	}
	return up, nil
}

// fail notes that a name in the top level, or with no name the level itself,
// cannot be deleted.
func (r *remover) fail(name string, err error) {
	r.failures++
	if r.first == nil {
		var b strings.Builder
		b.WriteString(strings.TrimSuffix(r.parent, "/"))
		for _, l := range r.levels[1:] {
			b.WriteString("/" + l.name)
		}
		if name != "" {
			b.WriteString("/" + name)
		}
		r.first = &TreeError{b.String(), err}
	}
	r.levels[len(r.levels)-1].keep(name)
}

func (l *level) keep(name string) {
	if l.stuck == nil {
		l.stuck = make(map[string]bool)
	}
	l.stuck[name] = true
}

// inodeOf converts because the fields have another type on each system.
func inodeOf(st *unix.Stat_t) inode { return inode{uint64(st.Dev), uint64(st.Ino)} }

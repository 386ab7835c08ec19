package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"

	"github.com/cofferhq/coffer/internal/safepath"
	"golang.org/x/sys/unix"
)

// tree is the root directory of an image that is being unpacked. Names are resolved with it as the
// root, so that links of an earlier entry lead where they would in the sandbox, and never out. What is
// made or removed is then named in an open directory.
type tree struct {
	path    string
	root    int
	entries int
	names   int
	bytes   int64
	// made is by the layer that is being laid, above are the directories that this is in.
	made, above map[string]bool
}

func newTree(dir string) (*tree, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	// Whatever the umask says.
	return &tree{path: dir, root: fd}, os.Chmod(dir, 0o755)
}

func (t *tree) close() { unix.Close(t.root) }

// layer unpacks a layer over the tree.
func (t *tree) layer(r io.Reader) error {
	t.made, t.above = map[string]bool{}, map[string]bool{}
	archive := tar.NewReader(r)
	for {
		c, err := next(archive)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := t.count(); err != nil {
			return err
		}
		if t.names += len(c.name); t.names > maxNames {
			return errLarge
		}
		if c.kind == "" {
			continue
		}
		if err := t.apply(c, archive); err != nil {
			return fmt.Errorf("%s %q: %w", c.kind, clip(c.name), err)
		}
	}
}

// count counts an entry, or a directory above one.
func (t *tree) count() error {
	if t.entries++; t.entries > maxEntries {
		return errLarge
	}
	return nil
}

// apply makes one change.
func (t *tree) apply(c change, content io.Reader) error {
	switch c.kind {
	case opaque:
		return t.empty(c.name)
	case whiteout:
		return t.whiteout(c.name)
	}
	dir, err := t.open(path.Dir(c.name))
	if errors.Is(err, unix.ENOENT) {
		dir, err = t.makeAll(path.Dir(c.name), 0)
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	base := path.Base(c.name)
	t.note(c.name)
	switch c.kind {
	case makeDir:
		return t.makeDir(dir, base, c)
	case makeFile:
		return t.makeFile(dir, base, c, content)
	case makeLink:
		return t.makeLink(dir, base, c)
	}
	if err := clear(dir, base); err != nil || c.kind == leaveOut {
		return err
	}
	if err := unix.Symlinkat(c.link, dir, base); err != nil {
		return err
	}
	return touch(dir, base, c.when)
}

// note records what this layer made, with the directories above.
func (t *tree) note(name string) {
	t.made[name] = true
	for dir := path.Dir(name); dir != "." && !t.above[dir]; dir = path.Dir(dir) {
		t.above[dir] = true
	}
}

// clear removes what is in the way of an entry.
func clear(dir int, base string) error {
	err := unix.Unlinkat(dir, base, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		return safepath.RemoveTree("/proc/self/fd/" + strconv.Itoa(dir) + "/" + base)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func (t *tree) makeDir(dir int, base string, c change) error {
	if kind, err := kindAt(dir, base); err != nil || kind != unix.S_IFDIR {
		if err := clear(dir, base); err != nil {
			return err
		}
		if err := unix.Mkdirat(dir, base, 0o700); err != nil {
			return err
		}
	}
	// The owner can always look into it and change it, or it could not be filled and removed.
	return chmod(dir, base, c.mode|0o700)
}

// chmod changes the mode of a directory.
func chmod(dir int, base string, mode uint32) error {
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fchmod(fd, mode)
}

func (t *tree) makeFile(dir int, base string, c change, content io.Reader) error {
	if t.bytes += c.size; t.bytes > maxUnpacked || c.size < 0 {
		return errLarge
	}
	if err := clear(dir, base); err != nil {
		return err
	}
	fd, err := unix.Openat(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, c.mode|0o400); err != nil {
		return err
	}
	if err := touch(dir, base, c.when); err != nil {
		return err
	}
	return f.Close()
}

// makeLink makes a hard link.
func (t *tree) makeLink(dir int, base string, c change) error {
	from, err := t.open(path.Dir(c.link))
	if err != nil {
		return fmt.Errorf("to %q: %w", clip(c.link), err)
	}
	defer unix.Close(from)
	var old, now unix.Stat_t
	target := path.Base(c.link)
	if err := unix.Fstatat(from, target, &old, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("to %q: %w", clip(c.link), err)
	}
	if kind := old.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFLNK {
		return fmt.Errorf("to %q, which is not a file", clip(c.link))
	}
	if unix.Fstatat(dir, base, &now, unix.AT_SYMLINK_NOFOLLOW) == nil && now.Ino == old.Ino && now.Dev == old.Dev {
		return nil // it is the same file already
	}
	if err := clear(dir, base); err != nil {
		return err
	}
	return unix.Linkat(from, target, dir, base, 0)
}

// whiteout removes a name of lower layers.
func (t *tree) whiteout(name string) error {
	if t.made[name] {
		return nil
	}
	dir, err := t.open(path.Dir(name))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return clear(dir, path.Base(name))
}

// empty removes what lower layers have in a directory.
func (t *tree) empty(name string) error {
	fd, err := t.open(name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return t.emptyAt(fd, name)
}

// emptyAt is empty for an open directory. Directories that this layer has too are emptied in turn.
func (t *tree) emptyAt(fd int, name string) error {
	names, err := readNames(fd)
	if err != nil {
		return err
	}
	for _, base := range names {
		full := path.Join(name, base)
		if !t.made[full] && !t.above[full] {
			if err := clear(fd, base); err != nil {
				return err
			}
			continue
		}
		below, err := unix.Openat(fd, base, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // no directory
		}
		err = t.emptyAt(below, full)
		unix.Close(below)
		if err != nil {
			return err
		}
	}
	return nil
}

// touch sets the time of an entry.
func touch(dir int, base string, when int64) error {
	if when < 0 || when > 1<<33 {
		when = 0
	}
	ts := unix.Timespec{Sec: when}
	return unix.UtimesNanoAt(dir, base, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}

package image

import (
	"errors"
	"path"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// Links are followed here, one at a time, and not by the kernel. That would follow forty of four
// thousand bytes each, for every entry of a layer anew: a few kilobytes kept it busy for minutes.
// Here a name with all its links followed is no longer than any other, and what is looked up
// has a bound for the whole image.

// maxLinks is how many links there may be on the way to a directory, as for the kernel.
const maxLinks = 40

var errWalked = errors.New("its directories and links take longer to look through than anything that coffer unpacks")

// look counts a name that is looked up.
func (t *tree) look(name string) error {
	if t.walked += len(name) + eachWalked; t.walked > maxWalked {
		return errWalked
	}
	return nil
}

// resolve opens a directory, with the tree as the root of all links.
func (t *tree) resolve(name string) (int, error) {
	_, fd, err := t.walk(name)
	return fd, err
}

// walk follows the links in a name, and opens the directory that it then stands for. If that is
// not there, real is nevertheless a name without links.
func (t *tree) walk(name string) (real string, fd int, err error) {
	for links := 0; ; links++ {
		fd, err = t.open(name)
		if !errors.Is(err, unix.ELOOP) || links == maxLinks {
			return name, fd, err
		}
		if name, err = t.follow(name); err != nil {
			return "", -1, err
		}
	}
}

// open opens a directory by a name without links. The kernel sees to it that no .. leads out.
func (t *tree) open(name string) (int, error) {
	if err := t.look(name); err != nil {
		return -1, err
	}
	for {
		fd, err := unix.Openat2(t.root, name, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
		})
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
}

// deepest opens the last directory on the way to a name, before the first that fails with why,
// and divides the name there. Once something on the way fails, all that is longer does.
func (t *tree) deepest(name string, why error) (fd int, here, rest []string, err error) {
	parts := strings.Split(name, "/")
	n := sort.Search(len(parts), func(i int) bool {
		fd, failed := t.open(join(parts[:i+1]))
		if failed == nil {
			unix.Close(fd)
		} else if !errors.Is(failed, why) {
			err = failed
		}
		return failed != nil
	})
	if err == nil && n == len(parts) {
		err = unix.EAGAIN // somebody else has changed it
	}
	if err != nil {
		return -1, nil, nil, err
	}
	fd, err = t.open(join(parts[:n]))
	return fd, parts[:n], parts[n:], err
}

// join is a name of these parts, of which .. stays: what is before it may be a link.
func join(parts []string) string {
	parts = slices.DeleteFunc(slices.Clone(parts), func(p string) bool { return p == "" || p == "." })
	if len(parts) == 0 {
		return "."
	}
	return strings.Join(parts, "/")
}

// follow puts what the first link in a name leads to in its place.
func (t *tree) follow(name string) (string, error) {
	dir, here, rest, err := t.deepest(name, unix.ELOOP)
	if err != nil {
		return "", err
	}
	defer unix.Close(dir)
	to := make([]byte, maxName)
	n, err := unix.Readlinkat(dir, rest[0], to)
	if err != nil {
		return "", err
	}
	where := string(to[:n])
	if path.IsAbs(where) {
		here = nil
	}
	return join(slices.Concat(here, strings.Split(where, "/"), rest[1:])), nil
}

// makeAll makes a directory, by a name without links, and those above it that are not there.
func (t *tree) makeAll(name string) (int, error) {
	at, _, rest, err := t.deepest(name, unix.ENOENT)
	for _, base := range rest {
		if err != nil {
			break
		}
		above := at
		at, err = t.makeBelow(above, base)
		unix.Close(above)
	}
	return at, err
}

func (t *tree) makeBelow(above int, base string) (int, error) {
	if base == ".." {
		return -1, unix.ENOENT // a link that goes up from where nothing is
	}
	if err := t.count(); err != nil {
		return -1, err
	}
	if err := unix.Mkdirat(above, base, 0o755); err != nil {
		return -1, err
	}
	if err := chmod(above, base, 0o755); err != nil {
		return -1, err
	}
	return unix.Openat(above, base, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

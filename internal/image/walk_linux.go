package image

import (
	"errors"
	"os"
	"path"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many dangling links there may be on the way to a directory that is made.
const maxLinks = 40

// open opens a directory by a name in which links are followed with the tree as the root of all.
func (t *tree) open(name string) (int, error) {
	for {
		fd, err := unix.Openat2(t.root, name, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
		})
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
}

// prefix is a name of so many parts; the tree itself if there are none.
func prefix(parts []string, n int) string {
	return "./" + strings.Join(parts[:n], "/")
}

// makeAll makes a directory, and those above it that are missing. A link that leads nowhere has a
// directory made where it leads to.
func (t *tree) makeAll(name string, links int) (int, error) {
	if len(name) > maxName {
		return -1, unix.ENAMETOOLONG
	}
	parts := strings.Split(name, "/")
	n := sort.Search(len(parts), func(i int) bool {
		fd, err := t.open(prefix(parts, i+1))
		if err == nil {
			unix.Close(fd)
		}
		return err != nil
	})
	at, err := t.open(prefix(parts, n))
	for i := n; i < len(parts) && err == nil; i++ {
		above := at
		at, err = t.makeBelow(above, parts[i])
		if target := readLink(above, parts[i]); errors.Is(err, unix.EEXIST) && target != "" {
			if !path.IsAbs(target) {
				target = prefix(parts, i) + "/" + target
			}
			unix.Close(above)
			if links == maxLinks {
				return -1, unix.ELOOP
			}
			return t.makeAll(strings.Join(append([]string{target}, parts[i+1:]...), "/"), links+1)
		}
		unix.Close(above)
	}
	return at, err
}

func readLink(dir int, name string) string {
	to := make([]byte, maxName)
	n, err := unix.Readlinkat(dir, name, to)
	if err != nil {
		return ""
	}
	return string(to[:n])
}

// makeBelow makes one directory in another, and opens it.
func (t *tree) makeBelow(above int, base string) (int, error) {
	if base == ".." {
		return -1, unix.ENOENT // a link that goes up from where nothing is
	}
	if base == "" || base == "." {
		return unix.Openat(above, ".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
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

func readNames(fd int) ([]string, error) {
	d, err := os.Open("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// mountPoints are files that every sandbox has its own of, mounted over those of the image.
var mountPoints = []string{"passwd", "group", "hosts", "hostname", "resolv.conf", "gitconfig"}

// furnish makes an empty file where a sandbox's own will be and the image has none, or a link.
// Its /etc must be a directory, or they would lie elsewhere.
func (t *tree) furnish() error {
	t.made, t.above = map[string]bool{}, map[string]bool{}
	if kind, err := kindAt(t.root, "etc"); err == nil && kind != unix.S_IFDIR {
		return errors.New("its /etc is not a directory")
	}
	for _, name := range mountPoints {
		if kind, err := kindAt(t.root, "etc/"+name); err == nil && kind == unix.S_IFREG {
			continue
		}
		if err := t.apply(change{kind: makeFile, name: "etc/" + name, mode: 0o644}, strings.NewReader("")); err != nil {
			return err
		}
	}
	return nil
}

// kindAt is the type of an entry, of which links are not followed.
func kindAt(dir int, name string) (uint32, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st.Mode & unix.S_IFMT, err
}

// syncTree has the disk keep what was unpacked before the name leads to it.
func syncTree(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Syncfs(fd)
}

// Has says whether an image has a program at an absolute path: links are followed as they would
// be inside.
func (i *Image) Has(name string) bool {
	root, err := unix.Open(i.Tree(), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, path.Clean("/" + name)[1:], &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 != 0
}

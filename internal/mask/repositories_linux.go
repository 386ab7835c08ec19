package mask

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"
)

// Repositories below a tree are found on the way: whoever looks through all directories has
// seen what is called .git in them.

// Repositories looks for them alone.
func (t *Tree) Repositories(ctx context.Context) ([]Found, error) {
	w := &walk{t: t, ctx: ctx, queue: []string{""}, bare: true}
	err := w.run()
	return w.Repositories, err
}

// nested says whether a repository in a directory is to be told of. That at the root is not
// further down, and kept by others, but for some trees.
func (t *Tree) nested(dir string) bool { return dir != "" || t.Top }

// repository notes one, by its name in the directory that fd is.
func (s *seen) repository(dir string, fd int, name string) {
	is, kind, _ := which(fd, name)
	if kind == 0 {
		return
	}
	s.repositories = append(s.repositories, Found{Path: join(dir, strings.Clone(name)), Dir: kind == unix.S_IFDIR, Which: is})
}

// checkouts looks for repositories in a directory that package managers fill. It may be huge,
// so only where they put them: one package each, and those of a scope one further down. Or somebody
// keeps all of it in one.
func (s *seen) checkouts(dir string, in int, name string, scope bool) {
	fd, err := unix.Openat(in, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var buf []byte
	if readDir(fd, &buf) != nil {
		return
	}
	for e := range entries(buf) {
		s.entries++
		switch {
		case e.name == ".git": // all of it is one
			s.repository(dir, fd, e.name)
		case !e.known(fd) || e.kind != unix.DT_DIR: // of a link that leads to a package, the place is elsewhere
		case !scope && (e.name[0] == '@' || e.name == "src"):
			s.checkouts(join(dir, e.name), fd, e.name, true)
		default:
			s.repository(dir, fd, e.name+"/.git")
		}
	}
}

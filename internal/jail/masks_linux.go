package jail

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/hint"
	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/rootfs"
	"golang.org/x/sys/unix"
)

// Files that hold secrets are hidden from the program as they are in a sandbox (package
// mask): by mounts, so only where there are any. Landlock cannot take anything out of a
// place that it opens.

// hidden is what is to be hidden in a context.
type hidden struct {
	paths []mask.Found // with the whole path
	keep  []string     // files that say so, and repositories further down, which stay as they are
	repos []string     // the directories that these repositories are in
	tree  *mask.Tree   // open, to hear of what appears
}

// note says which repositories are closed, a few of them by name.
func (h hidden) note() string {
	return "git can only read other repositories here: " + hint.Few(h.repos) + "; --write opens one"
}

// scan looks through a context for what is to be hidden there.
func (p *Policy) scan() (h hidden, err error) {
	dir, err := Resolve(p.Context)
	if err != nil {
		return h, err
	}
	var own []mask.Rule
	for _, line := range p.Masks {
		r, says, err := mask.ParseLine(line, "", "config")
		if err != nil {
			return h, err
		}
		if says {
			own = append(own, r)
		}
	}
	tree, err := mask.Open(dir, mask.NewSet(own, nil, ""))
	if err != nil {
		return h, err
	}
	found, err := tree.Scan(context.Background())
	if err != nil {
		tree.Close()
		return h, err
	}
	h.tree = tree
	for _, f := range found.Hidden {
		f.Path = filepath.Join(dir, f.Path)
		h.paths = append(h.paths, f)
	}
	for _, in := range found.Rules {
		h.keep = append(h.keep, filepath.Join(dir, in, mask.FileName))
	}
	for _, f := range found.Repositories {
		if p.Nested {
			break
		}
		for _, place := range rootfs.NestedGit(dir, f.Path) {
			h.keep = append(h.keep, filepath.Join(dir, place))
		}
		h.repos = append(h.repos, filepath.Dir(f.Path))
	}
	return h, nil
}

// hidden is what is to be hidden in the context, without what the user has opened by name.
func (j *jail) hidden() (hidden, error) {
	h, err := j.seen()
	if err == nil && h.tree.Root != j.layout.context {
		err = fmt.Errorf("%s is another directory than a moment ago", j.Policy.Context)
	}
	asked := func(path string) bool { return slices.Contains(j.layout.asked, path) }
	h.paths = slices.DeleteFunc(slices.Clone(h.paths), func(f mask.Found) bool { return asked(f.Path) })
	h.repos = slices.DeleteFunc(slices.Clone(h.repos), func(dir string) bool { return asked(filepath.Join(j.layout.context, dir, ".git")) })
	return h, err
}

// gap is about what is not hidden without mounts.
func (h hidden) gap() Gap {
	var names []string
	for _, f := range h.paths {
		names = append(names, f.Path)
	}
	return Gap{What: "files that are to be hidden can be read and changed: " + hint.Few(names), Needs: needsNamespaces}
}

// hide covers what is to be hidden by something that nobody can open, on a mount that
// nobody can change. What is above it in a writable place becomes a mount point, so that
// it keeps its name, too.
func (v *view) hide(l *layout, h hidden) {
	if len(h.paths) == 0 || len(v.fresh) == 0 {
		return
	}
	here := int64(unix.AT_FDCWD)
	file, dir := v.fresh[0]+"/.hidden-file", v.fresh[0]+"/.hidden-directory"
	v.Call("make "+file, unix.SYS_MKNODAT, uintptr(here), v.Text(file), unix.S_IFREG, 0)
	v.Call("make "+dir, unix.SYS_MKDIRAT, uintptr(here), v.Text(dir), 0)
	at, tree := v.Slot(), v.Slot()
	write := outermost(l.write)
	pinned := map[string]bool{}
	for _, path := range l.locked() { // these are mount points already
		pinned[path] = true
	}
	for _, f := range h.paths {
		v.pin(write, f.Path, pinned)
		v.find(f.Path)
		v.Last().Into = at
		v.Last().Forgive(5, unix.ENOENT, unix.ENOTDIR) // gone since
		cover := file
		if f.Dir {
			cover = dir
		}
		// Not of a mount that is not anywhere yet: only Linux 6.15 and later make copies of these.
		v.Call("take hold of a cover", unix.SYS_OPEN_TREE, uintptr(here), v.Text(cover), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC).Into = tree
		v.close(mount{tree: tree, path: "a cover"})
		v.attach(tree, at, f.Path)
		v.Call("close", unix.SYS_CLOSE).With(0, at)
		v.Call("close", unix.SYS_CLOSE).With(0, tree)
	}
	v.Call("forget "+file, unix.SYS_UNLINKAT, uintptr(here), v.Text(file), 0)
	v.Call("forget "+dir, unix.SYS_UNLINKAT, uintptr(here), v.Text(dir), unix.AT_REMOVEDIR)
}

// pin makes mount points of the directories between a writable place and a path in it: a
// mount point can be neither renamed nor removed. It returns the place, "" if the path is in none.
func (v *view) pin(write []string, path string, pinned map[string]bool) string {
	place := around(write, path)
	if place == "" {
		return ""
	}
	above := place
	parts := strings.Split(strings.TrimPrefix(path, above+"/"), "/")
	for _, name := range parts[:len(parts)-1] {
		if above = filepath.Join(above, name); !pinned[above] {
			pinned[above] = true
			v.cover(above)
		}
	}
	return place
}

// around is the place that a path is in, "" if there is none.
func around(places []string, path string) string {
	for _, place := range places {
		if rootfs.Within(path, place) {
			return place
		}
	}
	return ""
}

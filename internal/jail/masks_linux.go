package jail

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// Files that hold secrets are hidden from the program as they are in a sandbox (package
// mask): by mounts, so only where there are any. Landlock cannot take anything out of a
// place that it opens.

// hidden is what is to be hidden in a context.
type hidden struct {
	paths []mask.Found        // with the whole path
	keep  []string            // files that say so, settings, and repositories further down, which stay as they are
	repos []string            // the directories that these repositories are in
	tree  *mask.Tree          // open, to look for what was made meanwhile
	were  map[mask.Which]bool // the repositories that were there
}

// note says which repositories are closed, a few of them by name.
func (h hidden) note() string {
	return "git can only read other repositories here: " + ui.Few(h.repos) + "; --write opens one"
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
	for _, at := range found.Settings { // of which some only take the name, for another jail
		path := filepath.Join(dir, at)
		if info, err := os.Lstat(path); err == nil && !reserved(rootfs.Place{Path: path}, info) {
			h.keep = append(h.keep, path)
		}
	}
	h.were = map[mask.Which]bool{}
	for _, f := range found.Repositories {
		if h.were[f.Which] = true; p.Nested || f.Bare {
			continue
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
	h, err := j.seen, error(nil)
	if h.tree.Root != j.layout.context {
		err = fmt.Errorf("%s is another directory than a moment ago", j.Policy.Context)
	}
	asked := func(path string) bool { return slices.Contains(j.layout.asked, path) }
	h.paths = slices.DeleteFunc(slices.Clone(h.paths), func(f mask.Found) bool { return asked(f.Path) })
	if j.Private && err == nil && os.Geteuid() == 0 {
		h.paths = append(h.paths, closed(j.layout)...)
	}
	h.repos = slices.DeleteFunc(slices.Clone(h.repos), func(dir string) bool { return asked(filepath.Join(j.layout.context, dir, ".git")) })
	return h, err
}

// planted tells of repositories that the program has made: git would run what their config says.
func (h hidden) planted() string {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	found, err := h.tree.Repositories(ctx)
	var dirs []string
	for _, f := range found {
		if dir := filepath.Dir(f.Path); !h.were[f.Which] && dir != "." {
			dirs = append(dirs, dir)
		}
	}
	if rootfs.IsGitDir(h.tree.Root) { // it was not, or there is no jail
		dirs = append(dirs, h.tree.Root)
	}
	slices.Sort(dirs)
	switch {
	case len(dirs) > 0:
		return "git repositories were made in " + ui.Few(dirs) + "; check their config and hooks before you run git there or add them, as they can start programs"
	case err != nil:
		return "the context is too large to look through all of it for git repositories that were made"
	}
	return ""
}

// gap is about what is not hidden without mounts.
func (h hidden) gap() Gap {
	var names []string
	for _, f := range h.paths {
		names = append(names, f.Path)
	}
	return Gap{What: "files that are to be hidden can be read and changed: " + ui.Few(names), Needs: needsNamespaces}
}

// closed lists what of the system's directories only root and groups may read, such as the shadow
// file: to the kernel, root's programs in a jail are root. Those of programs have no secrets.
func closed(l *layout) (all []mask.Found) {
	given := slices.Concat(l.read, l.write)
	for _, dir := range rootfs.System(l.home) {
		if within(dir, []string{"/usr", "/nix", "/gnu", l.home}) {
			continue
		}
		_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil || e.Type()&fs.ModeSymlink != 0:
				return nil
			case within(path, given):
				return skip(e)
			case slices.ContainsFunc(given, func(place string) bool { return safepath.Within(place, path) }):
				return nil
			}
			want := fs.FileMode(0o004)
			if e.IsDir() {
				want = 0o005
			}
			info, err := e.Info()
			if err != nil || info.Mode()&want == want {
				return nil
			}
			all = append(all, mask.Found{Path: path, Dir: e.IsDir()})
			return skip(e)
		})
	}
	return all
}

// skip leaves a directory out of a walk.
func skip(e fs.DirEntry) error {
	if e.IsDir() {
		return fs.SkipDir
	}
	return nil
}

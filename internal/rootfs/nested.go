package rootfs

import (
	"github.com/cofferhq/coffer/internal/safepath"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// NestedGit lists what git takes orders from in a repository further down in a tree, by paths
// in the tree: what is called .git there, what that leads to, and what its config names. What
// is not there is left out, and so is what is in the tree's own .git, which is protected
// already.
func NestedGit(tree, git string) []string {
	places := []string{git}
	add := func(path string) {
		real, err := filepath.EvalSymlinks(path)
		rel, ok := strings.CutPrefix(real, tree+"/")
		inside := func(place string) bool { return rel == place || safepath.Within(rel, place) }
		if err == nil && ok && !inside(".git") && !slices.ContainsFunc(places, inside) {
			places = append(places, rel)
		}
	}
	at := filepath.Join(tree, git)
	dir, own := at, at
	info, err := os.Lstat(at)
	if err != nil {
		return places
	}
	if info.Mode().IsRegular() {
		if dir, _ = named(at); dir == "" {
			return places
		}
		own = dir
		if common, ok := worktree(at, dir); ok {
			add(common)
			dir = common
		}
	}
	// Any of them may be a link: the tool called repo makes such.
	for _, path := range []string{dir, filepath.Join(dir, "hooks"), filepath.Join(dir, "config")} {
		add(path)
	}
	below, _ := Submodules(filepath.Dir(at), filepath.Join(own, "index")) // what git cannot read, it looks into nowhere
	for _, path := range below {
		add(path)
	}
	for _, path := range references(filepath.Dir(at), os.Getenv("HOME"), dir, own) {
		add(path)
	}
	return places
}

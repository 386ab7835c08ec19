package git

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// Who deletes the folder of a sandbox deletes the sandbox, but not what it has in the
// user's repository: refs, and the worktree's own directory. Both say whose they are: the
// log of the first ref names the folder, and the directory the worktree.

// madeFor is what that log says, before the folder.
const madeFor = "coffer: for "

// sandboxID is what names of sandboxes' refs look like.
var sandboxID = lazily(`^[a-z0-9]{8}$`)

// Orphans finds what sandboxes of a store, whose folders are gone, have left in a
// repository. Those of other stores are nobody's business here. What is found can be
// forgotten, and nothing else.
func Orphans(ctx context.Context, common, store string) []*Bridge {
	store, err := filepath.EvalSymlinks(store)
	if err != nil {
		return nil
	}
	gone := func(path string) (id string) {
		rest, ok := strings.CutPrefix(path, store+"/")
		id, _, _ = strings.Cut(rest, "/")
		if _, err := os.Lstat(filepath.Join(store, id)); !ok || !sandboxID().MatchString(id) || !os.IsNotExist(err) {
			return ""
		}
		return id
	}
	var all []*Bridge
	known := map[string]bool{}
	add := func(b *Bridge) {
		if !known[b.ID] {
			known[b.ID] = true
			b.find(ctx)
			all = append(all, b)
		}
	}
	files, _ := filepath.Glob(filepath.Join(escapeGlob(common), "worktrees", "*", "gitdir"))
	for _, file := range files {
		tree, err := firstLine(file)
		if id := gone(tree); err == nil && id != "" {
			add(&Bridge{State: State{ID: id, Common: common, Admin: filepath.Dir(file), Tree: filepath.Dir(filepath.Clean(tree))}})
		}
	}
	h := host{dir: "/", where: []string{"--git-dir=" + common}}
	refs, _ := h.run(ctx, "", "for-each-ref", "--format=%(refname)", "refs/coffer/*/base")
	for ref := range strings.Lines(refs) {
		ref = strings.TrimSpace(ref)
		id, _, _ := strings.Cut(strings.TrimPrefix(ref, "refs/coffer/"), "/")
		said, err := h.run(ctx, "", "log", "-g", "--format=%gs", ref, "--")
		for line := range strings.Lines(said) {
			folder, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), madeFor)
			if err == nil && ok && gone(folder) == id && id != "" {
				add(&Bridge{State: State{ID: id, Common: common, Laid: true}})
			}
		}
	}
	return all
}

// find reads from the refs of a sandbox what its folder would have told.
func (b *Bridge) find(ctx context.Context) {
	out, _ := b.refs().run(ctx, "", "for-each-ref", "--format=%(objectname) %(refname)", b.own())
	for line := range strings.Lines(out) {
		id, ref, _ := strings.Cut(strings.TrimSpace(line), " ")
		if ref == b.own()+"base" {
			b.Base = id
		}
		if branch, ok := strings.CutPrefix(ref, b.synced()); ok && (b.Branch == "" || strings.HasPrefix(branch, "coffer/")) {
			b.Branch = branch
		}
	}
	b.Name = strings.TrimPrefix(b.Branch, "coffer/")
}

package supervisor

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// What copies files from one place to another asks what is hidden, and not only which lines
// match: a file may be hidden because it has another name, or because of what leads to it, and
// in a copy neither is so.

// covers says whether a path of a tree is hidden, or in a directory that is.
func (m *masks) covers(tree, path string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return within(m.hidden, tree, path)
}

func within[V any](hidden map[string]V, tree, path string) bool {
	for at := filepath.Join(tree, path); len(at) > len(tree); at = at[:strings.LastIndexByte(at, '/')] {
		if _, ok := hidden[at]; ok {
			return true
		}
	}
	return false
}

// Covered looks through a tree, and returns who says whether a path of it is hidden.
func Covered(ctx context.Context, tree *mask.Tree) (func(path string) bool, error) {
	r, err := tree.Scan(ctx)
	if err != nil {
		return nil, MaskProblem(err)
	}
	hidden := map[string]bool{}
	for _, f := range r.Hidden {
		hidden[filepath.Join(tree.Root, f.Path)] = true
	}
	return func(path string) bool { return within(hidden, tree.Root, path) }, nil
}

// HiddenFrom looks through the files of a sandbox, and of the repositories that it includes, for
// what is hidden from it.
func HiddenFrom(ctx context.Context, sb *sandbox.Sandbox, included []*git.Bridge) (a git.Access, err error) {
	tree, err := OpenMasks(&sb.Record)
	if err != nil {
		return a, err
	}
	defer tree.Close()
	if a.Hidden, err = Covered(ctx, tree); err != nil {
		return a, err
	}
	others := map[string]func(string) bool{}
	for _, b := range included {
		one, err := openIncludedMasks(sb, b)
		if err != nil {
			return a, err
		}
		others[b.Tree], err = Covered(ctx, one.tree)
		one.tree.Close()
		if err != nil {
			return a, err
		}
	}
	a.HiddenIn = func(tree, path string) bool { return others[tree] != nil && others[tree](path) }
	return a, nil
}

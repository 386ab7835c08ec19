package hidden

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// What copies files from one place to another asks what is hidden, and not only which lines
// match: a file may be hidden because it has another name, or because of what leads to it, and
// in a copy neither is so.

// covers says whether a path of a tree is hidden, or in a directory that is.
func (f *Files) covers(root, path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return within(f.known, root, path)
}

func within[V any](hidden map[string]V, root, path string) bool {
	for at := filepath.Join(root, path); len(at) > len(root); at = at[:strings.LastIndexByte(at, '/')] {
		if _, ok := hidden[at]; ok {
			return true
		}
	}
	return false
}

// Access says what checkpoints of a running sandbox leave out.
func (f *Files) Access() (a git.Access) {
	a.HiddenIn = f.covers
	for _, t := range f.trees {
		if t.at == f.sb.Workspace.Path {
			a.Hidden = func(path string) bool {
				return path == rootfs.IncludeAt || strings.HasPrefix(path, rootfs.IncludeAt+"/") || f.covers(t.Root, path) ||
					f.sb.Workspace.Mode != sandbox.WorkspaceTree && t.Hides(path, false) != nil
			}
		}
	}
	return a
}

// Covered scans a tree, and returns a function that says whether a path of it is hidden.
func Covered(ctx context.Context, tree *mask.Tree) (func(path string) bool, error) {
	r, err := tree.Scan(ctx)
	if err != nil {
		return nil, Problem(err)
	}
	hidden := map[string]bool{}
	for _, f := range r.Hidden {
		hidden[filepath.Join(tree.Root, f.Path)] = true
	}
	return func(path string) bool { return within(hidden, tree.Root, path) }, nil
}

// From scans the files of a sandbox that does not run, and of the repositories that it includes.
func From(ctx context.Context, sb *sandbox.Sandbox, included []*git.Bridge) (a git.Access, err error) {
	t, err := Open(&sb.Record)
	if err != nil {
		return a, err
	}
	defer t.Close()
	if a.Hidden, err = Covered(ctx, t); err != nil {
		return a, err
	}
	others := map[string]func(string) bool{}
	for _, b := range included {
		t, err := openIncluded(sb, b)
		if err != nil {
			return a, err
		}
		others[b.Tree], err = Covered(ctx, t)
		t.Close()
		if err != nil {
			return a, err
		}
	}
	a.HiddenIn = func(tree, path string) bool { return others[tree] != nil && others[tree](path) }
	return a, nil
}

package supervisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/rootfs"
)

// MarkTracked finds out which hidden files of a workspace git has: in its objects, which
// sandboxes see, they can be read. The index is read, and no program is asked.
func MarkTracked(list []Hidden, workspace string) (n int) {
	if len(list) == 0 || workspace == "" {
		return 0
	}
	root := workspace
	for {
		if _, err := os.Lstat(filepath.Join(root, ".git")); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			return 0
		}
		root = filepath.Dir(root)
	}
	names, err := rootfs.Tracked(rootfs.IndexOf(root))
	if err != nil {
		return 0
	}
	for i, h := range list {
		rel, err := filepath.Rel(root, h.Path)
		if err != nil {
			continue
		}
		if h.Dir {
			rel += "/"
		}
		at, exact := slices.BinarySearch(names, rel)
		if exact || h.Dir && at < len(names) && strings.HasPrefix(names[at], rel) {
			list[i].Tracked = true
			n++
		}
	}
	return n
}

// warnTracked tells the user, once, if what is hidden can be read in git's history.
func (s *Supervisor) warnTracked() {
	if n := MarkTracked(s.hidden(), s.Sandbox.Workspace.Path); n > 0 {
		s.notices.tell(fmt.Sprintf("hidden files that git has can be read in its history (%d of them): see 'coffer masks'", n))
	}
}

// overlookHidden has git inside not mind what is hidden. It is a convenience: without it,
// git says which file it cannot read.
func (s *Supervisor) overlookHidden(ctx context.Context) {
	var paths []string
	for _, h := range s.hidden() {
		paths = append(paths, h.Path)
	}
	if len(paths) == 0 {
		return
	}
	for _, g := range s.gits() {
		if err := g.bridge.Overlook(ctx, s, paths); err != nil {
			s.notices.tell("git inside will stumble over hidden files: " + err.Error())
		}
	}
}

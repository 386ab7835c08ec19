package hidden

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/rootfs"
)

// MarkTracked finds out which hidden files of a workspace git has: in its objects, which
// sandboxes see, they can be read. The index is read, and no program is asked.
func MarkTracked(list []File, workspace string) (n int) {
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

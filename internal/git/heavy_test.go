package git

import (
	"fmt"
	"strings"
	"testing"
)

// TestHeavy: a commit whose few trees name each other too often is heavy, others are not.
func TestHeavy(t *testing.T) {
	b, git := hostRepository(t)
	defer func(was int) { maxPaths = was }(maxPaths)
	maxPaths = 5000
	tree := git("hash-object", "-t", "tree", "-w", "/dev/null")
	for n := range 3 {
		var entries strings.Builder
		for i := range 20 {
			fmt.Fprintf(&entries, "040000 tree %s\td%02d\n", tree, i)
		}
		made, err := b.refs().run(t.Context(), entries.String(), "mktree")
		if err != nil {
			t.Fatal(err)
		}
		tree = strings.TrimSpace(made)
		commit := git("commit-tree", "-m", "x", tree)
		if is, err := b.refs().heavy(t.Context(), commit); err != nil || is != (n == 2) {
			t.Errorf("%d levels: %v, %v", n+1, is, err)
		}
	}
}

package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/gitbridge/index"
)

// Trees of trees of empty trees are not gone through to their end, to see what has changed.
func TestDifferIsBounded(t *testing.T) {
	if find() == "" {
		t.Skip("there is no git")
	}
	ctx, dir := context.Background(), t.TempDir()
	b := &Bridge{State: State{Common: filepath.Join(dir, "r"), Format: "sha1"}}
	git := func(stdin string, args ...string) string {
		t.Helper()
		out, err := b.refs().run(ctx, stdin, args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	git("", "init", "-q", "--bare", b.Common)
	empty := git("", "mktree")
	wide := func(n int, of string) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "040000 tree %s\t%04d\n", of, i)
		}
		return git(text.String(), "mktree")
	}
	for _, c := range []struct {
		tree  string
		bound bool
	}{{wide(10, wide(10, empty)), false}, {wide(10, wide(10, wide(1000, empty))), true}} {
		blobs, err := b.History().Blobs(ctx)
		if err != nil {
			t.Fatal(err)
		}
		d := differ{blobs: blobs, size: 20}
		if err := d.trees("", "", c.tree, 0); errors.Is(err, index.ErrUnusual) != c.bound || !c.bound && err != nil {
			t.Errorf("%s: %v, after %d", c.tree, err, d.read)
		}
		if d.read > 2*maxDiffer {
			t.Errorf("%s: it is over after %d", c.tree, d.read)
		}
		blobs.Close()
	}
}

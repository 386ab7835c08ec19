package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cofferhq/coffer/internal/gitbridge/index"
	"github.com/cofferhq/coffer/internal/tree"
)

// Trees of trees of empty trees are not gone through to their end, to see what has changed.
func TestDifferIsBounded(t *testing.T) {
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
		d := differ{blobs: &recent{Blobs: blobs}, size: 20}
		if err := d.trees("", "", c.tree, 0); errors.Is(err, index.ErrUnusual) != c.bound || !c.bound && err != nil {
			t.Errorf("%s: %v, after %d", c.tree, err, d.read)
		}
		if d.read > 2*maxDiffer {
			t.Errorf("%s: it is over after %d", c.tree, d.read)
		}
		blobs.Close()
	}
}

// Of files that are not as they were, no more is read than may be.
func TestFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int64{"small": 10, "large": 1 << 40} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(dir, name), size); errors.Is(err, syscall.EFBIG) {
			t.Skip("this file system has no files of this size")
		} else if err != nil {
			t.Fatal(err)
		}
	}
	top, err := tree.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	f := &files{top: top, format: "sha1", left: 15}
	defer f.close()
	if _, _, err := f.Name("large"); !errors.Is(err, index.ErrUnusual) {
		t.Errorf("a large file: %v", err)
	}
	f.left = 15
	if id, s, err := f.Name("small"); err != nil || len(id) != 20 || s.Size != 10 {
		t.Errorf("a small file: %d bytes, %+v, %v", len(id), s, err)
	}
	if _, _, err := f.Name("small"); !errors.Is(err, index.ErrUnusual) {
		t.Errorf("too much in all: %v", err)
	}
}

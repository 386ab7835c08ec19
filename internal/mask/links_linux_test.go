package mask

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestScanLinks: a look finds all names of a hidden file, and what a hidden link leads to.
func TestScanLinks(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	plant(t, dir, map[string]string{".env": "x", "a/b/": "", "node_modules/x/": "", "real/file": "y", "plain": "z"})
	must(t, os.Link(at(".env"), at("a/b/two")))
	must(t, os.Link(at(".env"), at("node_modules/x/three")))
	must(t, os.Symlink("real/file", at("l.key")))
	r, err := openTree(t, dir).Scan(context.Background())
	must(t, err)
	want := []string{".env", "a/b/two", "l.key", "node_modules/x/three", "real/file"}
	if got := names(r.Hidden); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

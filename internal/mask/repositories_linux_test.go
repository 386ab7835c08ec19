package mask

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Repositories below a tree are found wherever they are, but for the tree's own and those in
// directories of packages where no package manager puts any.
func TestRepositories(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{
		".git/": "", "sub/.git/": "", "sub/.git/modules/x/.git/": "", "a/b/c/.git": "gitdir: elsewhere", "link/.git": "-> ../file", "file": "x",
		"node_modules/one/.git/": "", "node_modules/@scope/two/.git/": "", "node_modules/@scope/@scope/three/.git/": "",
		".venv/src/four/.git/": "", "vendor/deep/er/.git/": "", "vendor/.git": "gitdir: elsewhere", "x/node_modules/.git/": "", ".env/.git/": "", "to": "-> sub",
		"src/HEAD": "x", "src/objects/": "", "src/refs/": "", "src/sub/HEAD": "x", "src/sub/commondir": "x", "src/no/HEAD": "x", "src/no/refs/": "", "HEAD": "x", "commondir": "x",
	})
	want := []string{".venv/src/four/.git", "a/b/c/.git", "link/.git", "node_modules/@scope/two/.git", "node_modules/one/.git", "src/HEAD", "src/sub/HEAD", "sub/.git", "vendor/.git", "x/node_modules/.git"}
	tree := openTree(t, dir)
	all, err := tree.Scan(context.Background())
	must(t, err)
	if got := names(all.Repositories); !slices.Equal(got, want) {
		t.Errorf("Scan found %v, want %v", got, want)
	}
	alone, err := tree.Repositories(context.Background())
	must(t, err)
	got := names(alone)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("Repositories found %v, want %v", got, want)
	}
	for _, f := range all.Repositories {
		if f.Which == (Which{}) || f.Bare != (filepath.Base(f.Path) == "HEAD") || !f.Bare && f.Dir != !slices.Contains([]string{"a/b/c/.git", "link/.git", "vendor/.git"}, f.Path) {
			t.Errorf("%s: %+v", f.Path, f)
		}
	}
}

// Links among packages, which lead to where a repository is, are left alone.
func TestCheckouts(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"lib/.git/": "", "node_modules/one/": "", "node_modules/two/": "", "node_modules/lib": "-> ../lib"})
	w := &walk{t: openTree(t, dir), bare: true}
	must(t, w.run(context.Background()))
	if got := names(w.Repositories); !slices.Equal(got, []string{"lib/.git"}) || w.effort.entries != 6 {
		t.Errorf("%v, %d entries", got, w.effort.entries)
	}
}

// A chain of directories of packages, made by somebody hostile, does not lead down for ever.
func TestRepositoriesInChains(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"node_modules/" + strings.Repeat("@a/", 500) + "x/.git/": ""})
	all, err := openTree(t, dir).Scan(context.Background())
	must(t, err)
	if len(all.Repositories) != 0 {
		t.Errorf("found %v", names(all.Repositories))
	}
}

// A watch tells of those that appear.
func TestWatchRepositories(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"old/.git/": "", "sub/": ""})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	told := make(chan string, 100)
	ended := make(chan error, 1)
	tree := openTree(t, dir)
	go func() {
		ended <- tree.Watch(ctx, Watching{Shared: true, Told: func([]Found) {}, Repository: func(f Found) { told <- f.Path }})
	}()
	wants := func(want string, known ...string) {
		t.Helper()
		for {
			select {
			case path := <-told:
				if path == want {
					return
				}
				if !slices.Contains(known, path) { // of which it may be told again
					t.Fatalf("told of %s, want %s", path, want)
				}
			case <-time.After(time.Minute):
				t.Fatalf("not told of %s", want)
			}
		}
	}
	wants("old/.git")
	must(t, os.Mkdir(filepath.Join(dir, "sub/.git"), 0o755))
	wants("sub/.git", "old/.git")
	plant(t, dir, map[string]string{"new/deep/.git/": ""})
	wants("new/deep/.git", "old/.git", "sub/.git")
	cancel()
	must(t, <-ended)
}

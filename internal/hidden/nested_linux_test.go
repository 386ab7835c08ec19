package hidden

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// What the watch has seen is remembered, though there was no time to look through all in the end.
func TestNestedRemembered(t *testing.T) {
	dir := t.TempDir()
	for _, made := range []string{"seen/.git", "last/.git"} {
		if err := os.MkdirAll(filepath.Join(dir, made), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	root, err := mask.Open(dir, mask.NewSet(nil, nil, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	one := &tree{Tree: root, at: dir, stays: true}
	f, _ := testFiles(t, one)
	all, err := root.Repositories(context.Background())
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	for _, r := range all {
		if r.Path == "seen/.git" {
			f.repositories(one)(r)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	f.lookLast(ctx, one)
	f.rememberMade(one)
	if made := f.remembered(one).Made; len(made) != 1 || made[0].Path != "seen/.git" {
		t.Errorf("remembered: %+v", made)
	}
}

// testFiles are those of a sandbox with one tree, and the lines that the user is told.
func testFiles(t *testing.T, one *tree) (f *Files, told *[]string) {
	t.Helper()
	store, err := sandbox.Open(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	sb, lock, err := store.Create(sandbox.Record{Workspace: sandbox.Workspace{Mode: sandbox.WorkspaceNone}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lock.Release)
	told = new([]string)
	f = New(sb, Host{Once: func(line string, _ func()) { *told = append(*told, line) }})
	f.trees = []*tree{one}
	return f, told
}

// Programs that make repositories all the time do not fill the memory of the host.
func TestManyRepositories(t *testing.T) {
	one := &tree{Tree: &mask.Tree{Root: "/work"}}
	f, told := testFiles(t, one)
	for i := range uint64(3 * maxMade) {
		f.appeared(one, mask.Found{Path: "sub/.git", Which: mask.Which{Ino: i + 1, Born: 1}})
	}
	if n, m := len(f.nested.known), len(f.nested.made["/work"]); n != maxMade || m != maxMade || len(*told) != mostNested+1 {
		t.Errorf("%d are known, %d noted, and %d told of", n, m, len(*told))
	}
	if last := f.nested.made["/work"][maxMade-1]; !f.nested.known[last.Which] || last.Ino != 3*maxMade {
		t.Errorf("the latest is %+v", last)
	}
}

// A number alone does not say whose a repository is.
func TestTheirRepositories(t *testing.T) {
	old, ours := mask.Which{Ino: 1}, mask.Which{Ino: 2, Born: 1}
	theirs := remembered{Made: []repository{{"a/.git", old}, {"b/.git", ours}}}.theirs()
	if theirs[old] || !theirs[ours] {
		t.Errorf("%v", theirs)
	}
}

// Who makes a tree too large for the last look does not keep the user from hearing of it.
func TestLastLook(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "sub/.git"), 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := mask.Open(dir, mask.NewSet(nil, nil, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	one := &tree{Tree: root, stays: true}
	f, told := testFiles(t, one)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.lookLast(ctx, one)
	if !slices.ContainsFunc(*told, func(line string) bool { return strings.Contains(line, "too large to look through") }) {
		t.Errorf("%q", *told)
	}
	f, told = testFiles(t, one)
	f.lookLast(t.Context(), one)
	if last := *told; len(last) != 1 || !strings.Contains(last[0], "made in "+dir+"/sub;") {
		t.Errorf("%q", last)
	}
}

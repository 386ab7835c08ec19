package git

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An index that cannot be made that of a commit stays as it is, and free for others.
func TestIndexStays(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	b := &Bridge{State: State{Common: filepath.Join(dir, ".git"), Admin: filepath.Join(dir, ".git"), Tree: dir, Format: "sha1"}}
	if _, err := (host{dir: dir}).run(ctx, "", "init", "-q", "."); err != nil {
		t.Fatal(err)
	}
	if _, err := b.tree().run(ctx, "", "read-tree", "--empty"); err != nil {
		t.Fatal(err)
	}
	index := filepath.Join(b.Admin, "index")
	before, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	if err := moveIndex(ctx, b.tree(), index, strings.Repeat("1", 40), strings.Repeat("2", 40)); err == nil {
		t.Error("it was made that of a commit that is nowhere")
	}
	if after, err := os.ReadFile(index); err != nil || string(after) != string(before) {
		t.Errorf("it has changed, %v", err)
	}
	if left, _ := filepath.Glob(index + ".*"); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
}

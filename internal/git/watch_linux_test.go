package git

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cofferhq/coffer/internal/mask"
)

// watched makes a bridge of directories alone.
func watched(t *testing.T) *Bridge {
	dir := t.TempDir()
	b := &Bridge{dir: dir, State: State{Common: filepath.Join(dir, "repo"), Admin: filepath.Join(dir, "repo/worktrees/w"), Branch: "coffer/box"}}
	for _, d := range []string{"git/refs/heads/coffer", "repo/refs/heads", "repo/worktrees/w"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"git/HEAD", "git/packed-refs", "git/refs/heads/coffer/box", "repo/packed-refs", "repo/worktrees/w/HEAD"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// TestWatch: while nothing moves nobody has to look, and whatever is looked at is told of.
func TestWatch(t *testing.T) {
	b := watched(t)
	var w mask.DirWatch
	defer w.Close()
	write := func(path string) func() error {
		path = filepath.Join(b.dir, path)
		return func() error {
			if err := os.WriteFile(path+".lock", []byte("new\n"), 0o644); err != nil {
				return err
			}
			return os.Rename(path+".lock", path)
		}
	}
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"HEAD inside", write("git/HEAD")},
		{"packed refs inside", write("git/packed-refs")},
		{"a branch inside", write("git/refs/heads/coffer/box")},
		{"a new directory inside", func() error { return os.MkdirAll(filepath.Join(b.dir, "git/refs/heads/topic/deep"), 0o755) }},
		{"a branch in it", write("git/refs/heads/topic/deep/one")},
		{"a branch that goes", func() error { return os.Remove(filepath.Join(b.dir, "git/refs/heads/topic/deep/one")) }},
		{"HEAD outside", write("repo/worktrees/w/HEAD")},
		{"packed refs outside", write("repo/packed-refs")},
		{"the first branch outside", func() error { return os.Mkdir(filepath.Join(b.dir, "repo/refs/heads/coffer"), 0o755) }},
		{"the branch outside", write("repo/refs/heads/coffer/box")},
	} {
		b.Watch(&w)
		_, _ = b.Glance(), b.outside() // to look is no news
		if w.Blind() || w.Happened() {
			t.Fatalf("before %s: blind, or something happened", c.name)
		}
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		if !w.Happened() {
			t.Errorf("%s: not noticed", c.name)
		}
	}
}

// TestWatchHostile: a tree too large to be watched is said to be, and nothing but
// directories is opened.
func TestWatchHostile(t *testing.T) {
	b := watched(t)
	heads := filepath.Join(string(b.private()), "refs/heads")
	if err := os.RemoveAll(heads); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(heads, 0o644); err != nil {
		t.Fatal(err)
	}
	var w mask.DirWatch
	defer w.Close()
	b.Watch(&w)
	none := b.Glance() // would wait for a writer
	os.Remove(heads)
	if err := os.Mkdir(heads, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range maxLook + 1 {
		if err := os.WriteFile(filepath.Join(heads, string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676))), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b.Glance() == none {
		t.Error("branches were not seen")
	}
	b.Watch(&w)
	if !w.Blind() {
		t.Error("there is more than is looked at, and nobody says so")
	}
}

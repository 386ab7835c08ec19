package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMerged has a branch of a sandbox's taken in all ways, and in part.
func TestMerged(t *testing.T) {
	b, git := hostRepository(t)
	top := filepath.Dir(b.Common)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(top, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	commit := func(name, text string) {
		t.Helper()
		write(name, text)
		git("add", "-A")
		git("commit", "-q", "-m", name)
	}
	lines := strings.Repeat("line\n", 20)
	commit("file", lines)
	commit("locked", "1\n")
	b.Base = git("rev-parse", "HEAD")
	git("checkout", "-q", "-b", "coffer/box")
	commit("file", "first\n"+lines)
	commit("other", "other\n")
	commit("file", "second\n"+lines)
	git("checkout", "-q", "main")
	commit("mine", "mine\n")
	start := git("rev-parse", "HEAD")

	for name, test := range map[string]struct {
		take func()
		want int
	}{
		"not at all": {func() {}, 3},
		"merged":     {func() { git("merge", "-q", "--no-edit", "coffer/box") }, 0},
		"squashed": {func() {
			git("merge", "-q", "--squash", "coffer/box")
			git("commit", "-q", "-m", "all")
		}, 0},
		"only staged": {func() { git("merge", "-q", "--squash", "coffer/box") }, 3},
		"squashed, and the same lines changed since": {func() {
			git("merge", "-q", "--squash", "coffer/box")
			git("commit", "-q", "-m", "all")
			commit("file", "third\n"+lines)
		}, 0},
		"squashed with changes elsewhere in the file": {func() {
			git("merge", "-q", "--squash", "coffer/box")
			commit("file", "second\n"+lines+"end\n")
		}, 0},
		"squashed without a part": {func() {
			git("merge", "-q", "--squash", "coffer/box")
			git("rm", "-q", "-f", "other")
			git("commit", "-q", "-m", "some")
		}, 3},
		"picked":           {func() { git("cherry-pick", b.Base+"..coffer/box") }, 0},
		"picked in part":   {func() { git("cherry-pick", b.Base+"..coffer/box~1") }, 3},
		"the same by hand": {func() { commit("file", "second\n"+lines); commit("other", "other\n") }, 0},
		"on another branch": {func() {
			git("checkout", "-q", "-b", "side")
			git("merge", "-q", "--squash", "coffer/box")
			git("commit", "-q", "-m", "all")
		}, 0},
		"squashed by another sandbox": {func() {
			git("checkout", "-q", "-b", "coffer/side")
			git("merge", "-q", "--squash", "coffer/box")
			git("commit", "-q", "-m", "all")
		}, 3},
		"with a driver that keeps everything": {func() {
			git("config", "merge.keep.driver", "true")
			git("config", "merge.default", "keep")
			write(".git/info/attributes", "* merge=keep\n")
			commit("file", "ours\n"+lines)
			commit("other", "ours\n")
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				git("reset", "-q", "--hard")
				git("checkout", "-q", "main")
				git("reset", "-q", "--hard", start)
				for _, branch := range []string{"side", "coffer/side"} {
					if strings.Contains(git("branch", "--list", branch), branch) {
						git("branch", "-q", "-D", branch)
					}
				}
			}()
			test.take()
			if n, err := b.Unmerged(t.Context()); err != nil || n != test.want {
				t.Errorf("%d commits are unmerged, %v; want %d", n, err, test.want)
			}
			left, _ := filepath.Glob(filepath.Join(b.Common, "objects", "tmp_*"))
			if len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestMergedSpace: a commit that is like another but for its white space is not that one, though
// git takes them for the same when it looks for what was picked.
func TestMergedSpace(t *testing.T) {
	b, git := hostRepository(t)
	commit := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(filepath.Dir(b.Common), "file"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		git("add", "-A")
		git("commit", "-q", "-m", "file")
	}
	commit("if x:\n\ty\n")
	b.Base = git("rev-parse", "HEAD")
	git("checkout", "-q", "-b", "coffer/box")
	commit("if x:\n    y\n")
	git("checkout", "-q", "main")
	commit("if x:\n  y\n")
	if left := git("rev-list", "--right-only", "--cherry-pick", "main...coffer/box"); left != "" {
		t.Log("this git tells them apart by itself, which proves less")
	}
	if n, err := b.Unmerged(t.Context()); err != nil || n != 1 {
		t.Errorf("%d commits are unmerged, %v; want 1", n, err)
	}
	// And the very same is found, though it was changed since.
	git("reset", "-q", "--hard", b.Base)
	commit("if x:\n    y\n")
	commit("if x:\n  z\n")
	if n, err := b.Unmerged(t.Context()); err != nil || n != 0 {
		t.Errorf("%d commits are unmerged, %v; want 0", n, err)
	}
}

// TestMergedNothing: commits without changes are nowhere else, though to git they are all alike.
func TestMergedNothing(t *testing.T) {
	b, git := hostRepository(t)
	git("checkout", "-q", "-b", "coffer/box")
	git("commit", "-q", "--allow-empty", "-m", "inside")
	git("checkout", "-q", "main")
	git("commit", "-q", "--allow-empty", "-m", "outside")
	if n, err := b.Unmerged(t.Context()); err != nil || n != 1 {
		t.Errorf("%d commits are unmerged, %v; want 1", n, err)
	}
}

// TestMergedOwnName: a branch that the user has named is not merged by being where it is.
func TestMergedOwnName(t *testing.T) {
	b, git := hostRepository(t)
	b.Branch = "topic"
	git("checkout", "-q", "-b", "topic")
	if err := os.WriteFile(filepath.Join(filepath.Dir(b.Common), "file"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	git("add", "-A")
	git("commit", "-q", "-m", "inside")
	git("branch", "coffer/box@other")
	if n, err := b.Unmerged(t.Context()); err != nil || n != 1 {
		t.Errorf("%d commits are unmerged, %v; want 1", n, err)
	}
	git("commit", "-q", "--amend", "-m", "the same once more")
	if n, err := b.Unmerged(t.Context()); err != nil || n != 2 {
		t.Errorf("%d commits are unmerged, %v; want 2", n, err)
	}
	git("branch", "-q", "-f", "coffer/box@other", "topic")
	git("branch", "mine", "topic")
	if n, err := b.Unmerged(t.Context()); err != nil || n != 0 {
		t.Errorf("%d commits are unmerged, %v; want none", n, err)
	}
}

// TestMergedMerge: what was done by hand in a merge is of no single commit.
func TestMergedMerge(t *testing.T) {
	b, git := hostRepository(t)
	top := filepath.Dir(b.Common)
	commit := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(top, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		git("add", "-A")
		git("commit", "-q", "-m", name)
	}
	git("checkout", "-q", "-b", "aside")
	commit("b")
	git("checkout", "-q", "-b", "coffer/box", "main")
	commit("a")
	git("merge", "-q", "--no-commit", "--no-ff", "aside")
	commit("by-hand")
	git("branch", "-q", "-D", "aside")
	git("checkout", "-q", "main")
	commit("mine")
	git("cherry-pick", "coffer/box^1", "coffer/box^2")
	if n, err := b.Unmerged(t.Context()); err != nil || n != 3 {
		t.Errorf("%d commits are unmerged, %v; want 3", n, err)
	}
	git("merge", "-q", "--squash", "coffer/box")
	git("commit", "-q", "-m", "the rest")
	if n, err := b.Unmerged(t.Context()); err != nil || n != 0 {
		t.Errorf("then %d commits are unmerged, %v; want none", n, err)
	}
}

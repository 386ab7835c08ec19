package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What git takes orders from in a repository further down is found in all of git's configuration.
func TestNestedGit(t *testing.T) {
	tree, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", filepath.Join(tree, "home"))
	put := func(path, text string) {
		path = filepath.Join(tree, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, hook := range []string{"one/own/x", "one/user/x", "two/user/x", "two/apart/x", "one/shared/x"} {
		put(hook, "")
	}
	put("home/.gitconfig", "[core]\nhooksPath = user\n")
	put("one/.git/config", "[core]\nhooksPath = shared\n[extensions]\nworktreeConfig = true\n")
	put("one/.git/config.worktree", "[core]\nhooksPath = own\n")
	put("one/.git/worktrees/two/gitdir", filepath.Join(tree, "two/.git")+"\n")
	put("one/.git/worktrees/two/commondir", "../..\n")
	put("one/.git/worktrees/two/config.worktree", "[core]\nhooksPath = apart\n")
	put("two/.git", "gitdir: ../one/.git/worktrees/two\n")
	for git, want := range map[string][]string{
		"one/.git": {"one/.git", "one/user", "one/shared", "one/own"},
		"two/.git": {"two/.git", "one/.git", "two/user", "two/apart"},
	} {
		if got := NestedGit(tree, git); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", git, got, want)
		}
	}
}

// Who plants a config that names many files does not have all of them looked for.
func TestManyIncludes(t *testing.T) {
	var text strings.Builder
	for i := range 10 * maxNamed {
		fmt.Fprintf(&text, "[include]\npath = %d\n[core]\nhooksPath = %d\n", i, i)
	}
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if c := readGitConfig(file); len(c.files)+len(c.hooks) != maxNamed {
		t.Errorf("%d files and %d directories", len(c.files), len(c.hooks))
	}
}

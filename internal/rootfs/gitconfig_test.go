package rootfs

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestGitConfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("other", "[core]\nhooksPath = /from/other\n")
	write("loop", "[include]\npath = loop\n[core]\nhookspath = l\n")
	for text, want := range map[string][]string{
		"":                                     nil,
		"[core]\n\thooksPath = .husky/_\n":     {".husky/_"},
		"[CORE]\nHOOKSPATH=a b # comment\n":    {"a b"},
		"[core] hooksPath = one\n":             {"one"},
		"[core]\nhooksPath = \"a;b\" ; c\n":    {"a;b"},
		"[core]\nhooksPath = a\\\n  b\n":       {"ab"},
		"[core \"x\"]\nhooksPath = no\n":       nil,
		"[core]\n# hooksPath = no\nbare = 1\n": nil,
		"[include]\npath = other\n":            {"/from/other"},
		"[includeIf \"gitdir:~/x\"]\npath = " + dir + "/other\n[core]\nhooksPath=q": {"/from/other", "q"},
	} {
		if got := gitConfig(write("config", text), "core.hookspath"); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := gitConfig(filepath.Join(dir, "loop"), "core.hookspath"); len(got) == 0 || len(got) > maxDepth+1 {
		t.Errorf("an include of itself gave %q", got)
	}
}

func FuzzGitConfig(f *testing.F) {
	f.Add("[core]\nhooksPath = x\n")
	f.Add("[a \"b\"] c = \"d\\\n")
	f.Fuzz(func(t *testing.T, s string) {
		for range parseGitConfig(strings.NewReader(s)) {
		}
	})
}

func TestProtectGit(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := func(p string) string { return filepath.Join(dir, p) }
	put := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(path(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("w/.git/config", "[core]\nhooksPath = tools/hooks\n")
	put("w/tools/hooks/pre-commit", "")
	put("w/.git/modules/m/config", "[core]\nworktree = ../../../a/b\n")
	put("w/a/b/.git", "gitdir: ../../.git/modules/m\n")
	steps, err := protectGit(path("w"), path("home"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range steps {
		got = append(got, s.Do+" "+strings.TrimPrefix(s.Target, path("w")))
	}
	want := []string{"lock /.git", "pin /a", "pin /a/b", "lock /a/b/.git", "pin /tools", "lock /tools/hooks"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := os.RemoveAll(path("w/tools/hooks")); err != nil {
		t.Fatal(err)
	}
	if _, err := protectGit(path("w"), path("home")); err == nil {
		t.Error("a hooks directory that a sandbox could make was accepted")
	}
}

// A .git file is believed only by the repository that it belongs to.
func TestWorktree(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "main/.git/worktrees/w")
	if err := os.MkdirAll(own, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "w/.git")
	for name, text := range map[string]string{"gitdir": file + "\n", "commondir": "../..\n"} {
		if err := os.WriteFile(filepath.Join(own, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if common, ok := worktree(file, own); !ok || common != filepath.Join(dir, "main/.git") {
		t.Errorf("got %s, %v", common, ok)
	}
	if common, ok := worktree(filepath.Join(dir, "evil/.git"), own); ok {
		t.Errorf("a stranger was shown %s", common)
	}
}

func TestUnixSockets(t *testing.T) {
	const file = `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 20617 /run/a.sock
0000000000000000: 00000003 00000000 00000000 0001 03 20618
0000000000000000: 00000002 00000000 00010000 0001 01 20619 @abstract
0000000000000000: 00000002 00000000 00010000 0001 01  2061 /w/my sock
`
	want := []string{"/run/a.sock", "/w/my sock"}
	got, relative := unixSockets(strings.NewReader(file))
	if !reflect.DeepEqual(got, want) || relative {
		t.Errorf("got %q, %v, want %q", got, relative, want)
	}
	if _, relative := unixSockets(strings.NewReader(file + "0: 2 0 1 1 1 2061 s\n")); !relative {
		t.Error("a relative path was overlooked")
	}
}

func FuzzUnixSockets(f *testing.F) {
	f.Add("0: 0 0 0 1 1 1 /x\n")
	f.Fuzz(func(t *testing.T, s string) {
		paths, _ := unixSockets(strings.NewReader(s))
		for _, p := range paths {
			if !filepath.IsAbs(p) {
				t.Errorf("%q is not a path", p)
			}
		}
	})
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		path, dir string
		want      bool
	}{
		{"/a/b", "/a", true}, {"/a", "/a", false}, {"/ab", "/a", false}, {"/a", "/", true}, {"/", "/", false}, {"/a", "/a/b", false},
	} {
		if got := Within(c.path, c.dir); got != c.want {
			t.Errorf("Within(%s, %s) = %v", c.path, c.dir, got)
		}
	}
}

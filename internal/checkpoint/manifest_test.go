package checkpoint

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// patterns are matched by us and by git, which must agree on each of the paths.
var patterns = []string{
	"a", "/a", "a/", "*.o", "!keep.o", "b/*.o", "/b/**", "**/c", "c/**/d", "**/c/d", "a*b", "a?c", "a[bc]d", "a[!bc]d", "a[b-d]e",
	`\#x`, `\!x`, "x ", `x\ `, "a**b", "*", "**", "/*", "!a", "foo/*", "foo/**/bar", "[[:digit:]]*", "a/b", "/a/b/", "*/c", "**/",
	"a[", "[]]", "[^a]", `a\`, "***", "a/***", "b**/x", "**x", "a//b", "dir/*/", "*.[oa]", "#comment", "", "!",
}

var paths = []string{
	"a", "b", "a/b", "a/b/c", "x.o", "keep.o", "b/x.o", "b/c/x.o", "c", "c/d", "c/x/d", "c/x/y/d", "x/c", "x/c/d", "ab", "axb", "aXXb", "abc", "abd",
	"acd", "axd", "ace", "#x", "!x", "x", "x ", "foo/a", "foo/bar", "foo/x/bar", "foo/x/y/bar", "1a", "]", "bxx/x", "dir/a/b", "lib.a", "a[",
}

// TestIgnore compares with git, whose rules these are.
func TestIgnore(t *testing.T) {
	sets := [][]string{{"*", "!*/", "!keep.o"}, {"*.o", "!keep.o"}, {"/b/**", "!/b/c/", "b/c/*"}, {"a", "!a/b"}, {"foo/*", "!foo/x"}}
	for _, p := range patterns {
		sets = append(sets, []string{p})
	}
	for _, set := range sets {
		dir := t.TempDir()
		git(t, dir, "init", "-q", ".")
		writeText(t, filepath.Join(dir, ".gitignore"), strings.Join(set, "\n")+"\n")
		for _, p := range paths {
			full := filepath.Join(dir, p)
			if os.MkdirAll(filepath.Dir(full), 0o755) != nil { // a file is in the way
				continue
			}
			if info, err := os.Lstat(full); err != nil || !info.IsDir() {
				os.WriteFile(full, []byte("x"), 0o644)
			}
		}
		want := strings.Split(strings.TrimSuffix(git(t, dir, "ls-files", "-z", "-o", "--exclude-standard"), "\x00"), "\x00")
		m, err := ReadTree(t.Context(), dir, Options{Ignore: NewIgnore()})
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for p := range m {
			got = append(got, p)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, slices.DeleteFunc(want, func(s string) bool { return s == "" })) {
			t.Errorf("%q:\ngot  %q\nwant %q", set, got, want)
		}
	}
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	c := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := c.Output()
	if err != nil {
		t.Fatalf("git %q: %v", args, err)
	}
	return string(out)
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestSince: what is there is told from what was, whatever strange things are there too.
func TestSince(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	writeText(t, outside, "secret")
	writeText(t, filepath.Join(dir, "same"), "same\n")
	writeText(t, filepath.Join(dir, "windows"), "one\r\ntwo\r\n")
	writeText(t, filepath.Join(dir, "changed"), "new\n")
	writeText(t, filepath.Join(dir, "added"), "added\n")
	writeText(t, filepath.Join(dir, "build/kept"), "kept\n")
	writeText(t, filepath.Join(dir, "build/loose"), "x\n")
	writeText(t, filepath.Join(dir, ".gitignore"), "build/\n")
	writeText(t, filepath.Join(dir, "deep/.git/config"), "x")
	writeText(t, filepath.Join(dir, "sub/file"), "x")
	os.Symlink(outside, filepath.Join(dir, "link"))
	os.Symlink(filepath.Dir(outside), filepath.Join(dir, "linkdir"))
	unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644)
	text := map[string]string{}
	was := Manifest{"sub": {Gitlink, strings.Repeat("1", 40)}}
	for p, s := range map[string]string{"same": "same\n", "windows": "one\ntwo\n", "changed": "old\n", "removed": "x", "build/kept": "was", ".gitignore": "build/\n"} {
		id, err := Name("sha1", strings.NewReader(s), int64(len(s)), nil)
		if err != nil {
			t.Fatal(err)
		}
		text[id] = s
		was[p] = Item{Regular, id}
	}
	var odd []string
	all, err := Since(context.Background(), dir, was, Options{
		Format: "sha1", Ignore: NewIgnore(), Known: Known(was), Odd: func(p, what string) { odd = append(odd, what+" "+p) },
		Blob: func(id string, _ int64) ([]byte, int64, error) { return []byte(text[id]), int64(len(text[id])), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range all {
		got = append(got, d.Path)
	}
	want := []string{"added", "build/kept", "changed", "link", "linkdir", "removed"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !slices.Equal(odd, []string{"git deep/.git", "fifo fifo"}) {
		t.Errorf("odd: %q", odd)
	}
	for _, d := range all {
		if s := Side(dir, d, 1<<20); strings.Contains(string(s.Text), "secret") && s.Mode != Symlink {
			t.Errorf("%s was read through a link", d.Path)
		}
	}
	if s := Side(dir, Delta{Path: "linkdir/secret", New: Item{Mode: Regular}}, 1<<20); !s.Huge || len(s.Text) > 0 {
		t.Error("a link in the path was followed")
	}
	if got := git(t, dir, "hash-object", "same"); strings.TrimSpace(got) != was["same"].ID {
		t.Errorf("git calls it %s", got)
	}
}

func FuzzIgnore(f *testing.F) {
	for _, p := range patterns {
		f.Add(p, "a/b/c")
	}
	f.Fuzz(func(t *testing.T, text, path string) {
		i := NewIgnore(text).Below("a", text)
		i.Match(path, true)
		i.Match(path, false)
	})
}

package rootfs

import (
	"encoding/binary"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/safepath"
	"golang.org/x/sys/unix"
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
	loop := write("loop", "[include]\npath = loop\npath = ./loop\n[core]\nhookspath = l\n")
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
		"[includeIf \"gitdir:~/x\"]\npath = " + dir + "/other\n[core]\nhooksPath=q": {"q", "/from/other"},
	} {
		if got := readGitConfig(write("config", text)); !reflect.DeepEqual(got.hooks, want) {
			t.Errorf("%q: got %q, want %q", text, got.hooks, want)
		}
	}
	if got := readGitConfig(loop); len(got.hooks) != 1 {
		t.Errorf("an include of itself gave %q", got)
	}
	if got := readGitConfig(write("config", "[include]\npath = gone\n")); !reflect.DeepEqual(got.files, []string{dir + "/gone"}) {
		t.Errorf("an include of a missing file gave %q", got.files)
	}
	// A named pipe in which nobody writes must not hold us up.
	if err := unix.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	readGitConfig(write("config", "[include]\npath = pipe\n"))
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
	put("w/.git/index", string(index(t, 2, "a/b", "c")))
	put("w/a/b/.git", "gitdir: ../../.git/modules/m\n")
	if err := os.Mkdir(path("w/c"), 0o755); err != nil { // never checked out
		t.Fatal(err)
	}
	steps, err := protectGit(path("w"), path("home"), false)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range steps {
		got = append(got, s.Do+" "+strings.TrimPrefix(s.Target, path("w")))
	}
	want := []string{"lock /.git", "pin /a", "pin /a/b", "lock /a/b/.git", "lock /c", "pin /tools", "lock /tools/hooks"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := os.RemoveAll(path("w/tools/hooks")); err != nil {
		t.Fatal(err)
	}
	if _, err := protectGit(path("w"), path("home"), false); err == nil {
		t.Error("a hooks directory that a sandbox could make was accepted")
	}
	put("w/.git/config", "[include]\npath = ../.gitconfig\n")
	if _, err := protectGit(path("w"), path("home"), false); err == nil {
		t.Error("an included file that a sandbox could make was accepted")
	}
	put("w/.git/config", "")
	if err := os.Remove(path("w/c")); err != nil {
		t.Fatal(err)
	}
	if _, err := protectGit(path("w"), path("home"), false); err == nil {
		t.Error("a submodule that a sandbox could make was accepted")
	}
	for _, name := range []string{"bare/HEAD", "bare/objects/x", "bare/refs/x"} {
		put(name, "")
	}
	for _, private := range []bool{false, true} {
		if _, err := workspace(View{Workspace: path("bare"), Home: path("home"), PrivateGit: private}); err == nil {
			t.Errorf("a git directory was accepted as a workspace (a .git was made in it: %v)", private)
		}
	}
}

// index makes an index with a file and submodules in it.
func index(t *testing.T, version uint32, links ...string) []byte {
	t.Helper()
	b := append([]byte("DIRC"), 0, 0, 0, byte(version), 0, 0, 0, byte(len(links)+1))
	last := ""
	for i, name := range append([]string{"a-file"}, links...) {
		entry := make([]byte, 62)
		mode := uint32(0o100644)
		if i > 0 {
			mode = indexGitlink
		}
		binary.BigEndian.PutUint32(entry[24:], mode)
		binary.BigEndian.PutUint16(entry[60:], uint16(len(name)))
		if version == 4 {
			entry = append(append(append(entry, byte(len(last))), name...), 0)
		} else {
			entry = append(entry, name...)
			entry = append(entry, make([]byte, 8-len(entry)%8)...)
		}
		b, last = append(b, entry...), name
	}
	return append(b, make([]byte, 20)...)
}

func TestGitlinks(t *testing.T) {
	want := []string{"sub", "deep/er/sub"}
	for _, version := range []uint32{2, 3, 4} {
		path := filepath.Join(t.TempDir(), "index")
		if err := os.WriteFile(path, index(t, version, want...), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Gitlinks(path)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("version %d: got %q, %v", version, got, err)
		}
	}
}

func TestNotAnIndex(t *testing.T) {
	good := string(index(t, 2, "sub"))
	v4 := string(index(t, 4)) // one entry, then its checksum
	for name, text := range map[string]string{
		"nothing": "", "another file": "PACK" + good[4:], "version 1": good[:7] + "\x01" + good[8:], "version 5": good[:7] + "\x05" + good[8:],
		"cut off": good[:60], "too early an end": "DIRC\x00\x00\x00\x02\x00\x00\x00\x05short", "many": good[:8] + "\xff\xff\xff\xff" + good[12:],
		"more flags in version 2": good[:72] + "\x40\x00" + good[74:], "no end of a name": v4[:75] + strings.Repeat("a", 100),
		"of more than there was": v4[:74] + "\x01a\x00", "a number that is too long": v4[:74] + "\xff\xff\xff\xff\x00a\x00", "no name": v4[:74] + "\x00\x00",
	} {
		if got, _, err := parseIndex([]byte(text)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// What git itself writes is understood.
func TestGitlinksOfGit(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"2", "4"} {
		for _, args := range [][]string{
			{"init", "-q"}, {"config", "index.version", version},
			{"update-index", "--add", "--cacheinfo", "160000,4b825dc642cb6eb9a060e54bf8d69288fbee4904,some/sub"},
			{"update-index", "--force-write-index"},
			{"update-index", "--split-index"},
			{"update-index", "--add", "--cacheinfo", "100644,4b825dc642cb6eb9a060e54bf8d69288fbee4904,of-its-own"},
		} {
			c := exec.Command("git", args...)
			c.Dir = dir
			c.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1"}
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("git %q: %v: %s", args, err, out)
			}
		}
		got, err := Gitlinks(filepath.Join(dir, ".git/index"))
		if err != nil || !reflect.DeepEqual(got, []string{"some/sub"}) {
			t.Errorf("version %s: got %q, %v", version, got, err)
		}
		if names, err := Tracked(filepath.Join(dir, ".git/index")); err != nil || !reflect.DeepEqual(names, []string{"of-its-own", "some/sub"}) {
			t.Errorf("version %s: got %q, %v", version, names, err)
		}
		if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzGitlinks(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) { _, _, _ = parseIndex(b) })
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
	got, relative, err := unixSockets(strings.NewReader(file))
	if err != nil || !reflect.DeepEqual(got, want) || relative {
		t.Errorf("got %q, %v, want %q", got, relative, want)
	}
	if _, relative, _ := unixSockets(strings.NewReader(file + "0: 2 0 1 1 1 2061 s\n")); !relative {
		t.Error("a relative path was overlooked")
	}
}

// TestSocketsInMounts: the kernel does not tell of every socket, so mounts are searched.
func TestSocketsInMounts(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(dir, "sub"))
	l, err := net.Listen("unix", "./s")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	want := filepath.Join(dir, "sub/s")
	if got, err := Sockets("", dir); err != nil || !slices.Contains(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	view := View{Mode: None, Mounts: []Mount{{Source: dir, Target: "/srv/x", ReadOnly: true}}}
	p := &Plan{Steps: []Step{{Do: Bind, Source: dir, Target: "/srv/x"}}}
	if err := p.maskSockets(view); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Do == Mask && s.Target == "/srv/x/sub/s" }) {
		t.Errorf("%+v", p.Steps)
	}
}

func FuzzUnixSockets(f *testing.F) {
	f.Add("0: 0 0 0 1 1 1 /x\n")
	f.Fuzz(func(t *testing.T, s string) {
		paths, _, _ := unixSockets(strings.NewReader(s))
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
		if got := safepath.Within(c.path, c.dir); got != c.want {
			t.Errorf("safepath.Within(%s, %s) = %v", c.path, c.dir, got)
		}
	}
}

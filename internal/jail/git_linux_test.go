package jail

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/testbed"
)

// git runs git outside, as the user.
func (s *stage) git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	c := s.Program("git", append([]string{"-C", dir, "-c", "user.name=u", "-c", "user.email=u@h", "-c", "protocol.file.allow=always"}, args...)...)
	r := finish(t, c)
	if r.code != 0 {
		t.Fatalf("git %v: %v", args, r)
	}
	return strings.TrimSpace(r.out)
}

// repository makes one with a commit.
func (s *stage) repository(t *testing.T, dir string) {
	t.Helper()
	s.write(t, filepath.Join(dir, "file"), "one\n")
	s.git(t, dir, "init", "-q", "-b", "main")
	s.git(t, dir, "add", "file")
	s.git(t, dir, "commit", "-q", "-m", "first")
}

const commit = `echo more >>file && git -c user.name=j -c user.email=j@h commit -q -a -m second && git status --short`

// unclean fails if a jail left something behind.
func (s *stage) unclean(t *testing.T, dir string) {
	t.Helper()
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		info, e := d.Info()
		if err != nil || e != nil {
			return nil
		}
		if reserved(rootfs.Place{}, info) || path == filepath.Join(dir, ".git", "commondir") || strings.HasPrefix(d.Name(), ".coffer") {
			t.Errorf("%s was left behind", path)
		}
		return nil
	})
}

// TestRepository: git can read a repository, and nothing of it can be changed: git outside follows
// links in its directory, and reads its config there.
func TestRepository(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		s.repository(t, s.Work)
		r := s.shell(t, layer, commit)
		if layer != Namespaces {
			if r.code != 0 || strings.Contains(r.err, "git can only read") {
				t.Errorf("commit, of which it is said that it is possible: %v", r)
			}
			return
		}
		if r.code == 0 || s.git(t, s.Work, "log", "--format=%s") != "first" {
			t.Errorf("it could commit: %v", r)
		}
		w := s.policy("sh", "-c", "git log --format=%s; git status --short; git diff --stat | wc -l; git blame -s file | wc -l")
		w.Quiet = false
		r = s.run(t, w)
		if r.code != 0 || r.out != "first\n M file\n2\n2\n" {
			t.Errorf("reading it: %v", r)
		}
		contains(t, r.err, "git can only read the repository here: commit outside, or use 'coffer run'")
		s.unclean(t, s.Work)
		s.git(t, s.Work, "worktree", "add", "-q", filepath.Join(s.Home, "other"))
		s.repository(t, filepath.Join(s.Home, "lib"))
		s.git(t, s.Work, "submodule", "--quiet", "add", filepath.Join(s.Home, "lib"), "sub")
		for _, bad := range []string{
			`echo x >.git/config`, `git config core.fsmonitor x`, `echo x >.git/hooks/pre-commit`, `rm -r .git/hooks`,
			`mv .git/hooks .git/h`, `mv .git elsewhere`, `rm -rf .git/config`, `ln -sf /x .git/config`,
			`echo /evil >.git/commondir`, `rm -f .git/commondir && echo /evil >.git/commondir`,
			`echo /evil >.git/worktrees/other/commondir`, `mv .git/worktrees .git/w`, `echo /evil >.git/modules/sub/config`,
			`mount --bind /tmp .git/hooks`, `umount .git/config`, `umount .git`, `echo x >.git/config.worktree`,
			`ln -s $HOME/.bashrc .git/COMMIT_EDITMSG`, `echo x >.git/SQUASH_MSG`, `ln -sf $HOME/.bashrc .git/logs/HEAD`, `git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),x`,
		} {
			before := s.git(t, s.Work, "config", "--list")
			if r := s.shell(t, layer, bad); r.code == 0 {
				t.Errorf("%s works: %v", bad, r)
			}
			if after := s.git(t, s.Work, "config", "--list"); after != before {
				t.Errorf("%s: the config changed", bad)
			}
		}
		if got, err := os.ReadDir(filepath.Join(s.Work, ".git", "hooks")); err != nil || len(got) == 0 {
			t.Errorf("the hooks are gone: %v", err)
		}
		// What is planted is told.
		if r := s.shell(t, layer, "git init -q a/b && git init -q c"); r.code != 0 || !strings.Contains(r.err, "git repositories were made in a/b, c; check") {
			t.Errorf("planted: %v", r)
		}
		if r := s.shell(t, layer, "true"); strings.Contains(r.err, "made in") {
			t.Errorf("planted before: %v", r)
		}
		if r := s.shell(t, layer, "mkdir -p src/objects src/refs; cp .git/HEAD src"); r.code != 0 || !strings.Contains(r.err, "git repositories were made in src; check") {
			t.Errorf("planted as a bare one: %v", r)
		}
		// The user may open it by name, and only so; it is said then.
		for open, free := range map[string]bool{s.Home + "/out": false, s.Work: false, s.Work + "/.git": true} {
			w := s.policy("sh", "-c", "echo >.git/new")
			w.Write, w.Quiet = []string{open}, false
			r := s.run(t, w)
			if said := strings.Contains(r.err, "what git reads and runs outside can be changed"); free != (r.code == 0) || free != said {
				t.Errorf("--write %s: %v", open, r)
			}
		}
	})
}

// TestReplaced: when somebody outside replaces a closed file, its protection is gone, and that is
// told; git's config is not such a file, as its directory is closed.
func TestReplaced(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := newStage(t, b)
		s.needNamespaces(t)
		s.repository(t, s.Work)
		s.write(t, filepath.Join(s.Work, ".envrc"), "")
		w := s.policy("sh", "-c", `(echo x >>.envrc) 2>/dev/null && echo open || echo closed; read x; (echo >>.git/config) && echo open || echo closed`)
		c := s.command(t, w)
		var errs strings.Builder
		c.Stderr = &errs
		in, _ := c.StdinPipe()
		out, _ := c.StdoutPipe()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		if lines.Scan(); lines.Text() != "closed" {
			t.Errorf("before: %s", lines.Text())
		}
		s.git(t, s.Work, "config", "some.key", "value")
		if r := finish(t, s.Program("sh", "-c", "cp .envrc new && mv new .envrc")); r.code != 0 {
			t.Fatal(r)
		}
		in.Close()
		if lines.Scan(); lines.Text() != "closed" {
			t.Errorf("git's config, after: %s", lines.Text())
		}
		c.Wait()
		contains(t, errs.String(), filepath.Join(s.Work, ".envrc")+" was replaced while the program ran")
	})
}

// TestLinkedWorktree: the repository of a linked worktree, or of a submodule, can be read only.
func TestLinkedWorktree(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		// A directory called worktrees above it must not confuse anybody.
		parent := filepath.Join(s.Home, "worktrees", "parent")
		s.repository(t, parent)
		s.repository(t, s.Home+"/lib")
		s.git(t, parent, "submodule", "--quiet", "add", s.Home+"/lib", "sub")
		s.git(t, parent, "worktree", "add", "-q", "-b", "topic", s.Work)
		common := filepath.Join(parent, ".git")
		bad := []string{
			"write:" + common + "/config", "create:" + common + "/hooks/pre-commit", "create:" + common + "/commondir",
			"remove:" + common + "/HEAD", "create:" + common + "/worktrees/x", "create:" + parent + "/new",
			"write:" + common + "/worktrees/work/commondir", "remove:" + common + "/worktrees/work/commondir",
			"write:" + common + "/worktrees/work/gitdir", "create:" + common + "/worktrees/work/COMMIT_EDITMSG",
			"write:" + common + "/modules/sub/config", "create:" + common + "/modules/sub/hooks/x",
		}
		v := &victims{stage: s}
		for _, context := range []string{s.Work, parent + "/sub"} {
			w := s.policy("sh", "-c", commit).in(layer)
			w.Context, w.Dir = context, context
			if r := s.run(t, w); r.code == 0 || s.git(t, context, "log", "--format=%s") != "first" {
				t.Errorf("%s: it could commit: %v", context, r)
			}
			mine := bad
			if layer == Namespaces {
				mine = append(mine, "write:"+context+"/.git", "remove:"+context+"/.git")
			}
			for i, got := range v.try(t, &w, mine) {
				if got == "ok" {
					t.Errorf("%s: %s works", context, mine[i])
				}
			}
		}
		for i, got := range v.try(t, nil, bad) { // last, because it does harm
			if got != "ok" {
				t.Errorf("%s: %s outside, so it proves nothing", bad[i], got)
			}
		}
	})
}

// TestReferences: what git's configuration and index refer to is closed too.
func TestReferences(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := newStage(t, b)
		s.needNamespaces(t)
		s.repository(t, s.Work)
		lib := filepath.Join(s.Home, "lib")
		s.repository(t, lib)
		s.git(t, s.Work, "submodule", "--quiet", "add", lib, "sub")
		s.git(t, s.Work, "config", "core.hooksPath", "tools/hooks") // which is not there
		s.write(t, filepath.Join(s.Work, "extra.gitconfig"), "[core]\n")
		s.git(t, s.Work, "config", "include.path", "../extra.gitconfig")
		v := &victims{stage: s}
		bad := []string{"mkdir:WORK/tools/hooks", "create:WORK/tools/pre-commit", "write:WORK/extra.gitconfig", "remove:WORK/extra.gitconfig", "write:WORK/sub/.git"}
		for i := range bad {
			bad[i] = strings.Replace(bad[i], "WORK", s.Work, 1)
		}
		w := s.policy()
		for i, got := range v.try(t, &w, bad) {
			if got == "ok" {
				t.Errorf("%s works", bad[i])
			}
		}
		s.unclean(t, s.Work)
		if err := os.Mkdir(filepath.Join(s.Work, "tools"), 0o777); err != nil {
			t.Fatal(err)
		}
		os.Chmod(filepath.Join(s.Work, "tools"), 0o777)
		for i, got := range v.try(t, nil, bad) {
			if got != "ok" && bad[i] != "write:"+s.Work+"/extra.gitconfig" {
				t.Errorf("%s: %s outside, so it proves nothing", bad[i], got)
			}
		}
	})
}

// TestPut: a file is complete, closed, and not put in the place of another.
func TestPut(t *testing.T) {
	dir := t.TempDir()
	place := rootfs.Place{Path: filepath.Join(dir, "x"), File: true, Content: "text"}
	if err := put(place, 0o1755, 0o444); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(place.Path)
	if b, _ := os.ReadFile(place.Path); err != nil || info.Mode() != 0o444 || string(b) != "text" || !reserved(place, info) {
		t.Errorf("%v, %v, %q", info.Mode(), err, b)
	}
	place.Content = "other"
	if err := put(place, 0o1755, 0o444); !errors.Is(err, os.ErrExist) {
		t.Errorf("again: %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("something was left behind: %v", entries)
	}
}

// TestNestedRepositories: what git runs in repositories further down is out of reach, too, unless
// the user opens one, or all.
func TestNestedRepositories(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := newStage(t, b)
		s.needNamespaces(t)
		s.repository(t, s.Work)
		for _, dir := range []string{"lib", "a/deep"} {
			s.repository(t, filepath.Join(s.Work, dir))
		}
		// The tool called repo has them elsewhere, and leaves a link.
		s.repository(t, filepath.Join(s.Work, "linked"))
		if err := errors.Join(os.Rename(s.Work+"/linked/.git", s.Work+"/store"), os.Symlink("../store", s.Work+"/linked/.git")); err != nil {
			t.Fatal(err)
		}
		v := &victims{stage: s}
		bad := []string{"create:" + s.Work + "/lib/.git/hooks/x", "write:" + s.Work + "/lib/.git/config", "create:" + s.Work + "/a/deep/.git/commondir",
			"create:" + s.Work + "/store/hooks/x", "rename:" + s.Work + "/linked/.git"}
		good := []string{"create:" + s.Work + "/lib/new", "write:" + s.Work + "/a/deep/file"}
		policy := s.policy()
		for i, got := range v.try(t, &policy, append(bad, good...)) {
			if want := i >= len(bad); (got == "ok") != want {
				t.Errorf("%d: %s", i, got)
			}
		}
		policy.Argv, policy.Quiet = []string{"true"}, false
		if r := s.run(t, policy); !strings.Contains(r.err, "git can only read other repositories here: a/deep, lib, linked; --write opens one") {
			t.Errorf("it says %v", r)
		}
		one := s.policy()
		one.Write = []string{s.Work + "/lib/.git"}
		if got := v.try(t, &one, bad); got[0] != "ok" || got[2] == "ok" {
			t.Errorf("with one opened: %v", got)
		}
		all := s.policy()
		all.Nested = true
		bad[0] += "2"
		for i, got := range v.try(t, &all, bad) {
			if got != "ok" {
				t.Errorf("opened, %d: %s", i, got)
			}
		}
	})
}

// However many directories something has to stay in, the program starts.
func TestManyRepositories(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := newStage(t, b)
		s.needNamespaces(t)
		const many = 400
		for i := range many {
			s.write(t, fmt.Sprintf("%s/lib%d/.git/config", s.Work, i), "")
			s.write(t, fmt.Sprintf("%s/app%d/.env", s.Work, i), "SECRET")
		}
		script := fmt.Sprintf(`for i in $(seq 0 %d); do
			(echo x >lib$i/.git/config) && echo lib$i: write
			mv lib$i elsewhere && echo lib$i: mv
			cat app$i/.env && echo app$i: read
		done 2>/dev/null; echo x >lib7/new && echo ran`, many-1)
		if r := s.shell(t, Namespaces, script); r.out != "ran\n" {
			t.Error(r)
		}
		s.unclean(t, s.Work)
	})
}

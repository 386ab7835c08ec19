package rootfs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// gitIn runs git, without the configuration of whoever runs the tests.
func gitIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	c := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=u", "-c", "user.email=u@h", "-c", "protocol.file.allow=always"}, args...)...)
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func place(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func TestFindRepository(t *testing.T) {
	// Directories called worktrees, above and below, must not confuse anybody.
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(top, "worktrees")
	main, lib := filepath.Join(dir, "main"), filepath.Join(dir, "lib")
	for _, d := range []string{main, lib} {
		place(t, filepath.Join(d, "file"), "x")
		gitIn(t, d, "init", "-q")
		gitIn(t, d, "add", "file")
		gitIn(t, d, "commit", "-q", "-m", "x")
	}
	linked := filepath.Join(dir, "linked")
	gitIn(t, main, "worktree", "add", "-q", linked)
	gitIn(t, main, "submodule", "--quiet", "add", lib, "sub")
	apart := filepath.Join(dir, "apart")
	gitIn(t, top, "init", "-q", "--separate-git-dir", filepath.Join(dir, "apart.git"), apart)
	place(t, filepath.Join(dir, "plain", "x"), "")
	git := filepath.Join(main, ".git")
	for name, want := range map[string]Repository{
		"main":     {Own: git, Common: git},
		"linked":   {Own: filepath.Join(git, "worktrees", "linked"), Common: git, Linked: true},
		"main/sub": {Own: filepath.Join(git, "modules", "sub"), Common: filepath.Join(git, "modules", "sub")},
		"plain":    {},
	} {
		got, err := FindRepository(filepath.Join(dir, name))
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	// Nothing in a directory made with --separate-git-dir says where its worktree is.
	if got, err := FindRepository(apart); !errors.Is(err, ErrStranger) {
		t.Errorf("apart: %+v, %v", got, err)
	}
	// A relative way back, as newer versions of git write it.
	place(t, filepath.Join(git, "worktrees", "linked", "gitdir"), "../../../../linked/.git\n")
	place(t, filepath.Join(linked, ".git"), "gitdir: ../main/.git/worktrees/linked\n")
	if got, err := FindRepository(linked); err != nil || !got.Linked {
		t.Errorf("relative: %+v, %v", got, err)
	}
}

// A .git file that leads to somebody else's directory is not believed.
func TestStranger(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(top, "other", ".git")
	for _, name := range []string{"HEAD", "objects/x", "refs/x", "config", "worktrees/w/HEAD"} {
		place(t, filepath.Join(other, name), "")
	}
	place(t, filepath.Join(other, "worktrees", "w", "gitdir"), top+"/w/.git\n")
	place(t, filepath.Join(other, "worktrees", "w", "commondir"), "../..\n")
	evil := filepath.Join(top, "evil")
	made := filepath.Join(evil, "made", "worktrees", "x")
	place(t, filepath.Join(made, "gitdir"), evil+"/.git\n")
	place(t, filepath.Join(made, "commondir"), other+"\n") // the way back is right, the way up is not
	for _, to := range []string{other, filepath.Join(other, "worktrees", "w"), made, top} {
		place(t, filepath.Join(evil, ".git"), "gitdir: "+to+"\n")
		if got, err := FindRepository(evil); !errors.Is(err, ErrStranger) || got != (Repository{}) {
			t.Errorf("%s: %+v, %v", to, got, err)
		}
	}
	for _, text := range []string{"", "gitdir: \n", "gitdir: /no/such/place\n", "nonsense", "gitdir: \x00\n"} {
		place(t, filepath.Join(evil, ".git"), text)
		if got, err := FindRepository(evil); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if err := errors.Join(os.Remove(filepath.Join(evil, ".git")), os.Symlink(other, filepath.Join(evil, ".git"))); err != nil {
		t.Fatal(err)
	}
	if got, err := FindRepository(evil); err == nil {
		t.Errorf("a symbolic link: %+v", got)
	}
}

// FuzzGitFile: whatever a .git file says, it does not lead to a directory that does not
// lead back.
func FuzzGitFile(f *testing.F) {
	f.Add([]byte("gitdir: ../other/.git\n"))
	f.Add([]byte("gitdir: ../other/.git/worktrees/w\n"))
	f.Add([]byte("gitdir: /"))
	f.Fuzz(func(t *testing.T, text []byte) {
		top, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"HEAD", "objects/x", "refs/x", "worktrees/w/HEAD"} {
			place(t, filepath.Join(top, "other", ".git", name), "")
		}
		dir := filepath.Join(top, "dir")
		place(t, filepath.Join(dir, ".git"), string(text))
		if got, err := FindRepository(dir); err == nil {
			t.Errorf("%q leads to %+v", text, got)
		}
	})
}

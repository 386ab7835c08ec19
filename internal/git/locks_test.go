package git

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Locks of gits that were killed go, and nothing else does.
func TestUnlock(t *testing.T) {
	dir := t.TempDir()
	b := &Bridge{dir: dir}
	write := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var gone, stay []string
	for _, name := range []string{"git/index.lock", "git/HEAD.lock", "git/refs/heads/coffer/x.lock", "git/worktrees/w/index.lock"} {
		gone = append(gone, write(name))
	}
	for _, name := range []string{"git/index", "git/refs/heads/main", "git/objects/pack.lock", "git/hooks/a.lock", "outside/index.lock"} {
		stay = append(stay, write(name))
	}
	for _, name := range []string{"git/evil.lock", "git/refs/evil"} {
		if err := os.Symlink("../outside", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	b.private().unlock()
	for _, path := range gone {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
	for _, path := range stay {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}

// TestIndexLock: a lock of somebody who was killed is taken over, git's is waited for, and
// who gives up waiting is let go.
func TestIndexLock(t *testing.T) {
	index := filepath.Join(t.TempDir(), "index")
	if err := os.WriteFile(index+".lock", []byte(ours), 0o600); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockIndex(t.Context(), index)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := os.WriteFile(index+".lock", nil, 0o600); err != nil { // as git makes it
		t.Fatal(err)
	}
	gone := errors.New("nobody waits")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := lockIndex(ctx, index); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	left, _ := os.ReadDir(filepath.Dir(index))
	if len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// TestForgetClears: of what a git that was killed leaves of refs that it was about to make,
// nothing stays when the sandbox goes. Another sandbox's is left alone.
func TestForgetClears(t *testing.T) {
	b, git := hostRepository(t)
	git("update-ref", "refs/coffer/stranger/base", "HEAD")
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{
		"refs/coffer/abcdefgh/base.lock", "refs/coffer/abcdefgh/synced/coffer/box.lock", "refs/coffer/abcdefgh/checkpoints/2.lock",
		"refs/heads/coffer/box.lock", "logs/refs/coffer/abcdefgh/base", "logs/refs/heads/coffer/box",
	} {
		path := filepath.Join(b.Common, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644), os.Chtimes(path, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Forget(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"refs/coffer/abcdefgh", "logs/refs/coffer/abcdefgh", "refs/heads/coffer", "logs/refs/heads/coffer"} {
		if exists(filepath.Join(b.Common, name)) {
			t.Errorf("%s is still there", name)
		}
	}
	git("rev-parse", "refs/coffer/stranger/base")
}

// TestConfigLock: those who make the first worktrees of a repository at the same time wait for
// each other, and a lock that stays is explained.
func TestConfigLock(t *testing.T) {
	b, git := hostRepository(t)
	r, err := Find(t.Context(), filepath.Dir(b.Common))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := r.perWorktree(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := git("config", "--get", "extensions.worktreeConfig"); got != "true" {
		t.Errorf("it is %q", got)
	}
	if err := os.WriteFile(filepath.Join(b.Common, "config.lock"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var said *Error
	if _, err := r.git().run(t.Context(), "", "config", "--file", filepath.Join(b.Common, "config"), "a.b", "c"); !errors.As(err, &said) || said.Hint() == "" {
		t.Errorf("no hint for %v", err)
	}
}

// TestForgetSparesBranch: a branch of the user's with the name of the directory that sandboxes'
// branches are in, which he can have when there are none, stays, and so does its log.
func TestForgetSparesBranch(t *testing.T) {
	b, git := hostRepository(t)
	git("branch", "--create-reflog", "coffer")
	want := git("rev-parse", "HEAD")
	if err := b.Forget(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if got := git("rev-parse", "refs/heads/coffer"); got != want {
		t.Errorf("it is %q", got)
	}
	if git("reflog", "show", "coffer") == "" {
		t.Error("its log is gone")
	}
}

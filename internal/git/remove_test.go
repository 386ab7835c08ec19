package git

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// hostRepository makes a repository for a bridge that has only that, and says how to run git
// in it. The branch that it starts with is main, with one commit.
func hostRepository(t *testing.T) (*Bridge, func(args ...string) string) {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		c := exec.Command("git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com"}, args...)...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "-b", "main")
	git("commit", "-q", "--allow-empty", "-m", "first")
	return &Bridge{dir: t.TempDir(), State: State{ID: "abcdefgh", Name: "box", Branch: "coffer/box", Common: filepath.Join(dir, ".git"), Base: git("rev-parse", "HEAD")}}, git
}

// TestUnmergedWhileRefsGo: another sandbox's branch that is removed after the refs were listed
// is no reason to fail, and its commits still count as being elsewhere.
func TestUnmergedWhileRefsGo(t *testing.T) {
	b, git := hostRepository(t)
	git("checkout", "-q", "-b", "coffer/other")
	git("commit", "-q", "--allow-empty", "-m", "other")
	git("checkout", "-q", "-b", "coffer/box")
	git("commit", "-q", "--allow-empty", "-m", "box")
	ours, others, err := b.merges().tips(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	git("branch", "-q", "-D", "coffer/other")
	if n, err := b.merges().beyond(t.Context(), ours, others); err != nil || n != 1 {
		t.Errorf("%d commits, %v; want 1", n, err)
	}
	if n, err := b.Unmerged(t.Context()); err != nil || n != 2 {
		t.Errorf("without the other branch: %d commits, %v; want 2", n, err)
	}
}

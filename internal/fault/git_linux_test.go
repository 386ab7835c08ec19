package fault

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// host runs a shell of the user's in the workspace.
func (w world) host(t *testing.T, script string) string {
	t.Helper()
	c := w.Program("/bin/sh", "-c", script)
	c.Dir = w.Work
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// sound says what git finds wrong with a repository. Packs are taken apart after a fetch,
// and an fsck that meets that misses what it looked for too early: it may look again.
const sound = `for i in 1 2 3 4 5; do wrong=$(git fsck 2>&1 | grep -v -e dangling -e notice); test "$wrong" || break; sleep 0.3; done; printf %s "$wrong"`

// repository makes the workspace one.
func (w world) repository(t *testing.T) {
	t.Helper()
	w.host(t, `git config --global user.name Ada; git config --global user.email ada@example.com; git config --global init.defaultBranch main; git init -q . && echo 1 >file && git add file && git commit -qm first`)
}

// pristine wants nothing of any sandbox in the repository but branches with commits.
func (w world) pristine(t *testing.T) {
	t.Helper()
	if got := w.host(t, `git worktree list | wc -l; git for-each-ref refs/coffer; git log -1 --format=%s main; git status --short; ls -d .git/coffer-* .git/worktrees/* 2>/dev/null; `+sound); got != "1\nfirst" {
		t.Errorf("the repository is not as it was: %s", got)
	}
}

// gitEnds waits until no git of somebody who was killed works on the host any more.
func (w world) gitEnds(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		all, _ := filepath.Glob("/proc/[0-9]*")
		for _, dir := range all {
			args, _ := os.ReadFile(dir + "/cmdline")
			if program, _, _ := strings.Cut(string(args), "\x00"); filepath.Base(program) != "git" {
				continue
			}
			// Which repository it is about may be in its arguments, its environment, or where it is.
			env, _ := os.ReadFile(dir + "/environ")
			cwd, _ := os.Readlink(dir + "/cwd")
			if strings.Contains(string(args)+string(env)+cwd, w.Dir) {
				return fmt.Errorf("still there: %q", args)
			}
		}
		return nil
	})
}

// TestKillWorktree kills whoever makes a worktree sandbox and brings its first commit over.
func TestKillWorktree(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.repository(t)
		for _, victim := range []string{"command", "supervisor", "guest"} {
			t.Run(victim, func(t *testing.T) {
				times(t, w, "record worktree private guest socket output incoming", func(t *testing.T, when func(*exec.Cmd, func() bool)) {
					w.murder(t, victim, when, "exec", "--create", "--", "sh", "-c", "git commit -q --allow-empty -m inside; echo in; sleep 0.005")
					w.gitEnds(t)
					w.must(t, "rm", "--force", "--delete-branch", "--everywhere")
					w.pristine(t)
				})
			})
		}
		w.works(t)
	})
}

// TestKillSync kills whoever brings commits over. Afterwards both sides agree again.
func TestKillSync(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.repository(t)
		w.must(t, "exec", "--create", "--name", "s", "--", "true")
		for _, victim := range []string{"command", "supervisor", "guest"} {
			t.Run(victim, func(t *testing.T) {
				times(t, w, "output", func(t *testing.T, when func(*exec.Cmd, func() bool)) {
					w.murder(t, victim, when, "exec", "-m", "s", "--", "sh", "-c", "echo x >>more; git add more; git commit -qm inside; echo in")
					w.must(t, "exec", "-m", "s", "--", "sh", "-c", "for i in $(seq 100); do rm -f /.coffer/git/*.lock /.coffer/git/refs/heads/coffer/*.lock; git commit -q --allow-empty -m after 2>/dev/null && exit; sleep 0.1; done; exit 1") // one that is killed may still be at it
					inside := strings.TrimSpace(w.must(t, "exec", "-m", "s", "--", "git", "rev-parse", "HEAD"))
					if outside := w.host(t, "git rev-parse coffer/s"); outside != inside {
						t.Errorf("inside it is %s, outside %s", inside, outside)
					}
					// It was brought over with its index: nothing looks changed or staged.
					if got := w.host(t, `git -C "$(dirname "$(git worktree list --porcelain | grep ^worktree.*/workspace/ | cut -d' ' -f2-)")/s" diff --cached --stat`); got != "" {
						t.Errorf("the index did not follow: %s", got)
					}
				})
			})
		}
		w.must(t, "rm", "--force", "--delete-branch", "s")
		w.pristine(t)
	})
}

// TestKillLaid kills throw-aways that commit in the user's own directory.
func TestKillLaid(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.repository(t)
		for _, victim := range []string{"command", "guest"} {
			t.Run(victim, func(t *testing.T) {
				times(t, w, "guest output incoming", func(t *testing.T, when func(*exec.Cmd, func() bool)) {
					w.murder(t, victim, when, "run", "--", "sh", "-c", "git commit -q --allow-empty -m inside; echo in; sleep 0.005")
					w.alone(t)
					eventually(t, func() error { // a process that is killed takes its time to be gone
						w.must(t, "list")
						if left := w.host(t, "git for-each-ref refs/coffer"); left != "" {
							return errors.New("left behind: " + left)
						}
						return nil
					})
					w.pristine(t)
				})
			})
		}
		w.works(t)
	})
}

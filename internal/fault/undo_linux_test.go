package fault

import (
	"os/exec"
	"strings"
	"testing"
)

// undoMoments are steps of an undo or a fork that can be seen from outside.
func init() {
	moments["noted"] = func(w world, _ *exec.Cmd) bool { return w.noted() }
	moments["forked"] = func(w world, _ *exec.Cmd) bool { return w.stored("[a-z]*/checkpoints/2") }
}

// noted says whether some sandbox is being restored.
func (w world) noted() bool {
	out, _ := exec.Command("sh", "-c", "grep -l restoring "+w.store()+"/*/checkpoints/list.json 2>/dev/null").Output()
	return len(out) > 0
}

// manyFiles makes the workspace one, with files enough for an undo to take a while.
func (w world) manyFiles(t *testing.T) {
	t.Helper()
	c := w.Program("sh", "-c", `git config --global user.name Ada; git config --global user.email ada@example.com
		git init -q . && for i in $(seq 200); do echo first >f$i; done && git add -A && git commit -qm first`)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// whole is what all files of a worktree say, each once, with the commit.
const whole = `cat f* | sort -u | tr "\n" " "; git log -1 --format=%s; ` + sound

// Who is killed in the middle of an undo leaves a sandbox that is, once it has started
// again, as before or as after.
func TestKillUndo(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.manyFiles(t)
		w.must(t, "exec", "--create", "--workspace", "worktree", "--name", "s", "--", "sh", "-c", "for i in $(seq 200); do echo second >f$i; done; git commit -qam second")
		for _, victim := range []string{"command", "supervisor"} {
			t.Run(victim, func(t *testing.T) {
				times(t, w, "noted", func(t *testing.T, when func(*exec.Cmd, func() bool)) {
					w.must(t, "undo", "s", "2")
					w.murder(t, victim, when, "undo", "s", "1")
					got := strings.TrimSpace(w.must(t, "exec", "-m", "s", "--", "sh", "-c", whole))
					if got != "first first" && got != "second second" {
						t.Errorf("half of it: %q", got)
					}
				})
			})
		}
		w.must(t, "remove", "--force", "s")
	})
}

// Who is killed in the middle of a fork leaves none, one that is whole, or one that says that
// it was never completed, or has no worktree.
func TestKillFork(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.manyFiles(t)
		w.must(t, "exec", "--create", "--workspace", "worktree", "--name", "s", "--", "sh", "-c", "for i in $(seq 200); do echo second >f$i; done")
		times(t, w, "record forked noted", func(t *testing.T, when func(*exec.Cmd, func() bool)) {
			w.murder(t, "command", when, "fork", "s", "--name", "f")
			if strings.Contains(w.must(t, "list"), " f ") {
				r := w.coffer(t, "exec", "-m", "f", "--", "sh", "-c", whole)
				if r.code == 0 && strings.TrimSpace(r.out) != "second first" || r.code != 0 && !strings.Contains(r.err, "never completed") && !strings.Contains(r.err, "its worktree is gone") {
					t.Errorf("half of it: %s", r)
				}
				w.must(t, "remove", "--force", "f")
			}
			if got := strings.TrimSpace(w.must(t, "exec", "-m", "s", "--", "sh", "-c", whole)); got != "second first" {
				t.Errorf("the first one: %q", got)
			}
			w.program(t, "git branch -q -D coffer/f 2>/dev/null; git worktree prune; true")
		})
		w.must(t, "remove", "--force", "s")
	})
}

// TestKillForkIncluded: a fork has all repositories of the first one, or says that it was never
// completed; and nothing of it stays in any of them.
func TestKillForkIncluded(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.manyFiles(t)
		lib := w.Dir + "/lib"
		w.host(t, `mkdir `+lib+` && cd `+lib+` && git init -q . && for i in $(seq 200); do echo first >f$i; done && git add -A && git commit -qm first`)
		w.must(t, "exec", "--create", "--workspace", "worktree", "--name", "s", "--", "true")
		w.must(t, "include", "--repo", lib, "-m", "s")
		change := "for i in $(seq 200); do echo second >f$i; done"
		w.must(t, "exec", "-m", "s", "--", "sh", "-c", change+"; cd .coffer/include/lib; "+change)
		both := whole + "; cd .coffer/include/lib && " + whole
		times(t, w, "record forked noted", func(t *testing.T, when func(*exec.Cmd, func() bool)) {
			w.murder(t, "command", when, "fork", "s", "--name", "f")
			w.gitEnds(t)
			if strings.Contains(w.must(t, "list"), " f ") {
				r := w.coffer(t, "exec", "-m", "f", "--", "sh", "-c", both)
				if got := strings.Join(strings.Fields(r.out), " "); r.code == 0 && got != "second first second first" || r.code != 0 && !strings.Contains(r.err, "never completed") && !strings.Contains(r.err, "its worktree is gone") {
					t.Errorf("half of it: %s", r)
				}
				w.must(t, "remove", "--force", "--delete-branch", "f")
			}
			w.host(t, `cd `+lib+` && "`+w.Coffer+`" gc`)
			if got := w.host(t, `cd `+lib+` && git worktree list | wc -l; git for-each-ref --format="%(refname)" refs/heads/coffer; git for-each-ref refs/coffer | grep -c /base; git status --short`); got != "2\nrefs/heads/coffer/s\n1" {
				t.Errorf("left in the repository: %s", got)
			}
			w.program(t, "git branch -q -D coffer/f 2>/dev/null; git worktree prune; true")
		})
		w.must(t, "remove", "--force", "--delete-branch", "s")
	})
}

// TestRemoveFork removes a sandbox that is being forked. Either there is a fork or not, and of the
// first nothing is left.
func TestRemoveFork(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.repository(t)
		slowly(t, func(t *testing.T, when func(*exec.Cmd, func() bool)) {
			w.must(t, "exec", "--create", "--name", "s", "--", "true")
			c := w.Command("fork", "s", "--name", "f")
			start(t, c)
			when(c, nil)
			removed := w.coffer(t, "rm", "--force", "--delete-branch", "s")
			if finish(t, c); removed.code != 0 {
				refused(t, removed, 125, []string{"a program runs in sandbox s"}) // the fork has it
			}
			w.must(t, "rm", "--force", "--delete-branch", "--everywhere")
			if got := w.host(t, "ls -A "+w.store()); got != ".lock" {
				t.Errorf("left in the store: %s", got)
			}
			w.pristine(t)
		})
	})
}

func (w world) program(t *testing.T, script string) {
	t.Helper()
	if out, err := w.Program("sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

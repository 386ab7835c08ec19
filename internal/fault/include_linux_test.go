package fault

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// slowly is times for what takes longer.
func slowly(t *testing.T, f func(t *testing.T, when func(c *exec.Cmd, ended func() bool))) {
	t.Helper()
	for _, d := range []int{0, 5, 12, 20, 30, 40, 55, 70, 90, 120, 160} {
		try(t, fmt.Sprintf("%dms", d), func(t *testing.T) {
			f(t, func(*exec.Cmd, func() bool) { time.Sleep(time.Duration(d) * time.Millisecond) })
		})
	}
}

// TestKillInclude kills whoever includes a repository, or takes it out. The sandbox works
// all the same, what was begun can be done again, and in the end nothing is left.
func TestKillInclude(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.repository(t)
		lib := w.Dir + "/lib"
		w.host(t, `mkdir `+lib+` && cd `+lib+` && git init -q . && echo lib >lib.txt && git add -A && git commit -qm lib`)
		clean := func(t *testing.T) {
			t.Helper()
			if got := w.host(t, `cd `+lib+` && git worktree list | wc -l; git for-each-ref refs/coffer refs/heads/coffer; git log -1 --format=%s main; git status --short`); got != "1\nlib" {
				t.Errorf("the repository is not as it was: %s", got)
			}
		}
		w.must(t, "exec", "--create", "--name", "s", "--", "true")
		t.Run("include", func(t *testing.T) {
			slowly(t, func(t *testing.T, when func(*exec.Cmd, func() bool)) {
				w.murder(t, "command", when, "include", "--repo", lib, "-m", "s")
				w.gitEnds(t)
				w.must(t, "exec", "-m", "s", "--", "true")
				if r := w.coffer(t, "include", "--repo", lib, "-m", "s"); r.code != 0 && !strings.Contains(r.err, "is included in sandbox s already") {
					t.Errorf("it cannot be included any more: %s", r)
				}
				if got := w.must(t, "exec", "-m", "s", "--", "cat", ".coffer/include/lib/lib.txt"); got != "lib\n" {
					t.Errorf("inside there is %q", got)
				}
				w.must(t, "uninclude", "lib", "-m", "s")
				clean(t)
			})
		})
		t.Run("uninclude", func(t *testing.T) {
			slowly(t, func(t *testing.T, when func(*exec.Cmd, func() bool)) {
				w.must(t, "include", "--repo", lib, "-m", "s")
				w.must(t, "exec", "-m", "s", "--", "sh", "-c", "cd .coffer/include/lib && git status")
				w.murder(t, "command", when, "uninclude", "lib", "-m", "s")
				w.gitEnds(t)
				w.must(t, "exec", "-m", "s", "--", "true")
				if r := w.coffer(t, "uninclude", "lib", "-m", "s"); r.code != 0 && !strings.Contains(r.err, "includes no other repository") {
					t.Errorf("it cannot be taken out any more: %s", r)
				}
				w.must(t, "gc")
				clean(t)
			})
		})
		w.must(t, "rm", "--force", "--delete-branch", "s")
		w.pristine(t)
	})
}

// TestKillIncludeLive kills whoever includes a repository in a sandbox in which programs run, or
// takes it out once they have ended. The next start shows what is included, and nothing of what
// is not.
func TestKillIncludeLive(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.repository(t)
		lib := w.Dir + "/lib"
		w.host(t, `mkdir `+lib+` && cd `+lib+` && git init -q . && echo lib >lib.txt && echo KEY=1 >.env && git add -A && git commit -qm lib`)
		const look = `cat .coffer/include/lib/lib.txt 2>/dev/null || echo none; cat .coffer/include/lib/.env 2>/dev/null; true`
		included := func() bool { return strings.Contains(w.must(t, "show", "s"), "lib: ") }
		agree := func(t *testing.T) {
			t.Helper()
			w.must(t, "stop", "--force", "s")
			want := map[bool]string{true: "lib\n", false: "none\n"}[included()]
			if got := w.must(t, "exec", "-m", "s", "--", "sh", "-c", look); got != want {
				t.Errorf("inside there is %q, not %q", got, want)
			}
		}
		for _, victim := range []string{"command", "supervisor"} {
			t.Run(victim, func(t *testing.T) {
				w.must(t, "exec", "--create", "--name", "s", "--", "true")
				slowly(t, func(t *testing.T, when func(*exec.Cmd, func() bool)) {
					w.must(t, "exec", "-m", "s", "-d", "--", "sleep", "1000")
					w.murder(t, victim, when, "include", "--repo", lib, "-m", "s")
					w.gitEnds(t)
					agree(t)
					if !included() {
						w.must(t, "include", "--repo", lib, "-m", "s")
						agree(t)
					}
					w.murder(t, victim, when, "uninclude", "lib", "-m", "s")
					w.gitEnds(t)
					agree(t)
					if included() {
						w.must(t, "uninclude", "lib", "-m", "s")
						agree(t)
					}
				})
				w.must(t, "rm", "--force", "--delete-branch", "s")
				w.must(t, "gc")
				if got := w.host(t, `cd `+lib+` && git worktree list | wc -l; git for-each-ref refs/coffer refs/heads/coffer; git status --short`); got != "1" {
					t.Errorf("the repository is not as it was: %s", got)
				}
			})
		}
		w.pristine(t)
	})
}

// TestKillUndoIncluded: all repositories of a sandbox are at one moment, whoever is killed on
// the way there.
func TestKillUndoIncluded(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.manyFiles(t)
		lib := w.Dir + "/lib"
		w.host(t, `mkdir `+lib+` && cd `+lib+` && git init -q . && for i in $(seq 200); do echo first >f$i; done && git add -A && git commit -qm first`)
		w.must(t, "exec", "--create", "--workspace", "worktree", "--name", "s", "--", "true")
		w.must(t, "include", "--repo", lib, "-m", "s")
		change := "for i in $(seq 200); do echo second >f$i; done; git commit -qam second"
		w.must(t, "exec", "-m", "s", "--", "sh", "-c", change+"; cd .coffer/include/lib; "+change)
		both := whole + "; cd .coffer/include/lib; " + whole
		for _, victim := range []string{"command", "supervisor"} {
			t.Run(victim, func(t *testing.T) {
				times(t, w, "noted", func(t *testing.T, when func(*exec.Cmd, func() bool)) {
					w.must(t, "undo", "s", "2")
					w.murder(t, victim, when, "undo", "s", "1")
					got := strings.Join(strings.Fields(w.must(t, "exec", "-m", "s", "--", "sh", "-c", both)), " ")
					if got != "first first first first" && got != "second second second second" {
						t.Errorf("half of it: %q", got)
					}
				})
			})
		}
		w.must(t, "remove", "--force", "--delete-branch", "s")
	})
}

// TestFailInclude includes a repository in a sandbox that turns out not to be possible. Nothing of
// either is left.
func TestFailInclude(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.repository(t)
		lib := w.Dir + "/lib"
		w.host(t, `git branch coffer/s; mkdir `+lib+` && cd `+lib+` && git init -q . && echo lib >lib.txt && git add -A && git commit -qm lib`)
		for range 20 {
			c, include := w.Command("exec", "--create", "--name", "s", "--", "true"), w.Command("include", "--repo", lib, "-m", "s")
			start(t, c)
			eventually(t, func() error { // that it is there, or was
				if w.stored("[a-z]*") || ended(c) {
					return nil
				}
				return errors.New("nothing is made")
			})
			start(t, include)
			refused(t, finish(t, c), 125, []string{"a branch named coffer/s already exists"})
			finish(t, include)
			if got := w.host(t, `ls -A `+w.store()+`; cd `+lib+` && git worktree list | wc -l; find .git/refs/coffer .git/logs/refs/coffer .git/refs/heads/coffer -mindepth 1 2>/dev/null; true`); got != ".lock\n1" {
				t.Fatalf("something is left: %s", got)
			}
		}
	})
}

// TestRemoveInclude removes a sandbox in which somebody includes a repository at the same time.
// Nothing of either is left: no worktree in that repository, and no folder that is no sandbox.
func TestRemoveInclude(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.repository(t)
		lib := w.Dir + "/lib"
		w.host(t, `mkdir `+lib+` && cd `+lib+` && git init -q . && echo lib >lib.txt && git add -A && git commit -qm lib`)
		slowly(t, func(t *testing.T, when func(*exec.Cmd, func() bool)) {
			w.must(t, "exec", "--create", "--name", "s", "--", "true")
			w.must(t, "stop", "s")
			c := w.Command("include", "--repo", lib, "-m", "s")
			start(t, c)
			when(c, nil)
			w.must(t, "rm", "--force", "--delete-branch", "s")
			finish(t, c)
			if got := w.host(t, `ls -A `+w.store()+`; cd `+lib+` && git worktree list | wc -l; git for-each-ref refs/heads/coffer; find .git/refs/coffer .git/logs/refs/coffer -mindepth 1 2>/dev/null; git status --short`); got != ".lock\n1" {
				t.Errorf("something is left: %s", got)
			}
			w.pristine(t)
		})
	})
}

package fault

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func init() {
	moments["merging"] = func(w world, _ *exec.Cmd) bool {
		for _, name := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "index.lock"} {
			if exists(filepath.Join(w.Work, ".git", name)) {
				return true
			}
		}
		return false
	}
	moments["listed"] = func(w world, _ *exec.Cmd) bool { return w.stored("[a-z]*/checkpoints/list.json.new") }
}

// few calls f at some delays and at the named moments.
func few(t *testing.T, w world, at string, f func(t *testing.T, when func(c *exec.Cmd, ended func() bool))) {
	t.Helper()
	for _, d := range []int{2, 8, 17, 30, 50} {
		try(t, fmt.Sprintf("%dms", d), func(t *testing.T) {
			f(t, func(*exec.Cmd, func() bool) { time.Sleep(time.Duration(d) * time.Millisecond) })
		})
	}
	for name := range strings.FieldsSeq(at) {
		try(t, name, func(t *testing.T) {
			f(t, func(c *exec.Cmd, ended func() bool) {
				for !moments[name](w, c) && !ended() {
				}
			})
		})
	}
}

// Who is killed while he merges leaves git to finish it. What the user had is there, and the
// next command works.
func TestKillMerge(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.manyFiles(t)
		w.program(t, "echo 1 >own; git add own; git commit -qm own; git branch start")
		w.must(t, "exec", "--create", "--workspace", "worktree", "--name", "s", "--", "sh", "-c",
			"for n in 1 2 3; do for i in $(seq 200); do echo $n >f$i; done; git commit -qam $n; done")
		w.program(t, "echo theirs >theirs; git add theirs; git commit -qm theirs; git branch -f start; echo mine >>own; echo loose >loose")
		for _, way := range []string{"merge", "rebase"} {
			t.Run(way, func(t *testing.T) {
				few(t, w, "merging", func(t *testing.T, when func(*exec.Cmd, func() bool)) {
					w.murder(t, "command", when, way, "s")
					w.gitEnds(t)
					w.must(t, way, "s")
					got := w.host(t, `tail -n 1 own; cat loose; cat f* | sort -u; git log --format=%s -- theirs; git status --short; `+sound)
					if got != "mine\nloose\n3\ntheirs\n M own\n?? loose" {
						t.Errorf("got %q", got)
					}
					w.program(t, "git checkout -q -B $(git branch --show-current) start")
				})
			})
		}
		w.must(t, "remove", "--force", "s")
	})
}

// Who is killed while a checkpoint is taken leaves those there were, and what was written.
func TestKillCheckpoint(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.manyFiles(t)
		w.must(t, "exec", "--create", "--workspace", "worktree", "--name", "s", "--", "true")
		n := 0
		for _, victim := range []string{"command", "supervisor"} {
			t.Run(victim, func(t *testing.T) {
				few(t, w, "output listed", func(t *testing.T, when func(*exec.Cmd, func() bool)) {
					n++
					w.murder(t, victim, when, "exec", "-m", "s", "--", "sh", "-c", fmt.Sprintf("for i in $(seq 200); do echo %d >f$i; done; echo in", n))
					now := w.must(t, "exec", "-m", "s", "--", "sh", "-c", "cat f* | sort -u; true")
					w.must(t, "undo", "s", "1")
					if got := w.must(t, "exec", "-m", "s", "--", "sh", "-c", "cat f* | sort -u; git status --short"); got != "first\n" {
						t.Errorf("undone: %q", got)
					}
					w.must(t, "undo", "s")
					if got := w.must(t, "exec", "-m", "s", "--", "sh", "-c", "cat f* | sort -u; true"); got != now {
						t.Errorf("it was %q and is %q", now, got)
					}
				})
			})
		}
		w.must(t, "remove", "--force", "s")
	})
}

// In the user's own directory, what he does between the death and the next start stays.
func TestKillUndoLaid(t *testing.T) {
	for _, mode := range []string{"direct", "cow"} {
		t.Run(mode, func(t *testing.T) {
			each(t, func(t *testing.T, w world) {
				w.manyFiles(t)
				w.must(t, "exec", "--create", "--workspace", mode, "--name", "s", "--", "sh", "-c", "for i in $(seq 200); do echo second >f$i; done; git commit -qam second")
				few(t, w, "noted", func(t *testing.T, when func(*exec.Cmd, func() bool)) {
					w.must(t, "undo", "--force", "s", "2")
					if w.murder(t, "supervisor", when, "undo", "--force", "s", "1").code == 0 {
						w.must(t, "stop", "--force", "s") // it came too early, and undo has started another one
					}
					w.alone(t)
					if mode == "direct" {
						w.host(t, "echo mine >f7")
					}
					got := strings.Fields(w.must(t, "exec", "-m", "s", "--", "sh", "-c", "cat f[0-689]* f7?* | sort -u; git log -1 --format=%s; cat f7"))
					if len(got) != 3 || got[0] != got[1] || got[0] != "first" && got[0] != "second" {
						t.Errorf("half of it: %q", got)
					}
					want := "mine"
					if mode == "cow" {
						want = got[0]
					}
					if len(got) == 3 && got[2] != want {
						t.Errorf("f7 is %q, not %q", got[2], want)
					}
				})
				if mode == "cow" {
					if got := w.host(t, "cat f* | sort -u; git status --short"); got != "first" {
						t.Errorf("the user's files: %q", got)
					}
				}
				w.must(t, "remove", "--force", "s")
			})
		})
	}
}

// When the disk of the user's repository is full, commits stay inside, which is said, and come
// over when there is room again. Nothing is half written.
func TestSyncFull(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		r := w.script(t, `
			mount -t tmpfs -o size=3m,mode=755,uid=$UID_,gid=$UID_ none "$PWD"
			cd "$PWD"
			user git config --global user.name Ada; user git config --global user.email ada@example.com
			user sh -c 'git init -q . && echo 1 >file && echo fill >.gitignore && git add file .gitignore && git commit -qm first'
			before=$(user git rev-parse HEAD)
			user coffer exec --create --keep-free 0 --workspace worktree --name s -- true
			user sh -c 'cat /dev/zero >fill || true' 2>/dev/null
			user coffer exec -m s -- sh -c 'head -c 300000 /dev/urandom >big; git add big; git commit -qm inside; echo committed' 2>"$HOME/err"
			grep -o "commits were not brought over" "$HOME/err"
			test "$(user git rev-parse HEAD)" = "$before"; test "$(user git rev-parse coffer/s)" = "$before"
			user git --no-optional-locks status --short; user sh -c '`+sound+`'
			rm fill
			user coffer exec -m s -- git log -1 --format=%s 2>"$HOME/err"
			user git log -1 --format='outside %s' coffer/s
			user git -C "$(user coffer cd s)" status --short
			user sh -c '`+sound+`'
			user coffer exec -m s -- sh -c 'echo 2 >file'
			user coffer undo s | sed -n '1s, (.*),,p'
			user coffer rm --force --delete-branch s >/dev/null
			find .git -name '*.lock' -o -name 'tmp_obj*' -o -name 'index.coffer*'
		`)
		if want := "committed\ncommits were not brought over\ninside\noutside inside\nsandbox s is back at checkpoint 2; 1 file changed\n"; r.code != 0 || r.out != want {
			t.Errorf("want %q: %s", want, r)
		}
	})
}

// When the disk of the store is full, a program meets that itself, no checkpoint is taken,
// which is said, and those there are lead back when there is room again.
func TestCheckpointFull(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		w.manyFiles(t)
		r := w.script(t, `
			data=$(dirname "$(dirname "$STORE")")
			user mkdir -p "$data"
			mount -t tmpfs -o size=24m,mode=755,uid=$UID_,gid=$UID_ none "$data"
			user coffer exec --create --keep-free 0 --workspace direct --name s -- sh -c 'for i in $(seq 200); do echo second >f$i; done'
			user sh -c 'cat /dev/zero >"$1/fill" || true' sh "$data" 2>/dev/null
			user coffer exec -m s -- sh -c 'head -c 100000 /dev/urandom >big; for i in $(seq 200); do echo third $i >f$i; done; echo done' 2>"$HOME/err"
			grep -o "no checkpoint was taken" "$HOME/err"
			user coffer undo --force s 1 2>"$HOME/err" && echo "undone on a full disk" || grep -o "no space left on device" "$HOME/err" | head -1
			cat f7; ls big
			rm "$data/fill"
			user coffer exec -m s -- true
			user coffer undo --force s 1 | sed -n '1s, (.*),,p'
			cat f* | sort -u; ls big 2>/dev/null || echo "big is gone"
			user coffer undo s | sed -n '1s, (.*),,p'
			cat f7; ls big
			user coffer rm --force s >/dev/null
			user sh -c '`+sound+`'
		`)
		want := "done\nno checkpoint was taken\nno space left on device\nthird 7\nbig\nsandbox s is back at checkpoint 1; 201 files changed\nfirst\nbig is gone\nsandbox s is back at checkpoint 3; 201 files changed\nthird 7\nbig\n"
		if r.code != 0 || r.out != want {
			t.Errorf("want %q: %s", want, r)
		}
	})
}

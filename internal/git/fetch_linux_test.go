package git_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/testbed"
)

// TestFetch: commits come over, many or few, also when the sandbox ends the git inside that
// hands them out; and nothing stays where they lay aside.
func TestFetch(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		put(t, b, filepath.Join(b.Home, ".gitconfig"), "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n", 0o644)
		sh(t, b, b.Work, `git init -q . && echo 1 >file && git add file && git commit -qm first`)
		coffer(t, b, b.Work, "exec", "--create", "--workspace", "worktree", "--name", "box", "--", "true")
		inside := func(script string) {
			t.Helper()
			coffer(t, b, b.Work, "exec", "-m", "box", "--", "sh", "-ec", script)
		}
		packs := func(want string) {
			t.Helper()
			sh(t, b, b.Work, `n=0; until [ $(ls .git/objects/pack | grep -c 'pack$') = `+want+` ]; do n=$((n+1)); [ $n -lt 1200 ] || exit 1; sleep 0.05; done`)
		}

		inside(`for i in 1 2 3; do echo $i >>file; git commit -qam $i; done`)
		sh(t, b, b.Work, `test "$(git log -1 --format=%s coffer/box)" = 3 && git fsck --strict`)
		packs("0") // when nobody waits any more
		inside(`c=HEAD; for i in $(seq 120); do c=$(git commit-tree -p $c -m many$i HEAD^{tree}); done; git update-ref HEAD $c`)
		sh(t, b, b.Work, `test "$(git log -1 --format=%s coffer/box)" = many120 && git fsck --strict`)
		packs("1")
		// Another branch, at a commit of the host's that no ref of the sandbox is at.
		inside(`git branch old HEAD~60; git branch first origin/main`)
		sh(t, b, b.Work, `test "$(git log -1 --format=%s coffer/box@old)" = many60 && test "$(git rev-parse coffer/box@first)" = "$(git rev-parse main)"`)
		inside(`git branch -D old; git branch old/new HEAD~1`)
		sh(t, b, b.Work, `test "$(git log -1 --format=%s coffer/box@old/new)" = many119`)

		// A branch that is another's name, and a git that is killed.
		inside(`git symbolic-ref refs/heads/alias refs/heads/old/new`)
		inside(`n=0 found=
			until [ "$found" ]; do
				git commit -q --allow-empty -m more
				for p in /proc/[0-9]*; do
					case $(tr '\0' ' ' <$p/cmdline 2>/dev/null) in
					"git upload-pack "*) if kill -9 ${p#/proc/}; then found=1; fi ;; # it may have ended by itself
					esac
				done
				n=$((n+1)); [ $n -lt 2000 ]
			done
			git commit -q --allow-empty -m last`)
		sh(t, b, b.Work, `test "$(git log -1 --format=%s coffer/box)" = last && git fsck --strict && git -C "$(git worktree list | sed -n '2s/ .*//p')" diff --quiet HEAD`)
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			left, _ := filepath.Glob(filepath.Join(b.Work, ".git/objects/tmp_*"))
			if len(left) == 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("left aside: %v", left)
			}
		}
	})
}

// output is what a script prints, in the user's repository.
func output(t *testing.T, b *testbed.Bed, script string) string {
	t.Helper()
	out, err := b.Program("sh", "-c", script).Output()
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return string(out)
}

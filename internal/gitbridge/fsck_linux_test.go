package gitbridge_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// TestBadObjects: a commit whose tree has a .git in it would be checked out by somebody,
// somewhere. It does not come over, and nothing moves.
func TestBadObjects(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	const bad = `c=$(git commit-tree -m bad -p HEAD $(printf '040000 tree %s\t.git\n' $(git rev-parse HEAD^{tree}) | git mktree)) && git update-ref HEAD $c`
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		put(t, b, filepath.Join(b.Home, ".gitconfig"), "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n", 0o644)
		sh(t, b, b.Work, `git init -q . && echo 1 >file && git add file && git commit -qm first`)
		// Without the check, git takes it. Not in this repository: what it has once, it
		// does not fetch again.
		sh(t, b, b.Work, `git clone -q . ../clone && git clone -q . ../taker && (cd ../clone && `+bad+`) && cd ../taker && git fetch -q ../clone HEAD:taken && git rev-parse -q --verify taken^{commit}`)
		c := b.Command("exec", "--create", "--workspace", "worktree", "--name", "bad", "--", "sh", "-c", bad)
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "commits were not brought over") || !strings.Contains(string(out), "hasDotgit") {
			t.Errorf("want word of the bad object, got %v: %s", err, out)
		}
		sh(t, b, b.Work, `test "$(git rev-parse coffer/bad)" = "$(git rev-parse main)"`)
		// When it is gone, what is good comes over.
		coffer(t, b, b.Work, "exec", "-m", "bad", "--", "sh", "-c", "git reset -q --soft HEAD~1 && git commit -q --allow-empty -m good")
		sh(t, b, b.Work, `test "$(git log -1 --format=%s coffer/bad)" = good`)
	})
}

// TestOthersRefs: nothing that is done to refs inside touches those of the user.
func TestOthersRefs(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		put(t, b, filepath.Join(b.Home, ".gitconfig"), "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n", 0o644)
		sh(t, b, b.Work, `git init -q . && echo 1 >file && git add file && git commit -qm first && git branch release && git tag v1 && git update-ref refs/coffer/other/base HEAD`)
		state := func() string {
			c := b.Program("sh", "-c", `git for-each-ref refs/heads/main refs/heads/release refs/tags refs/remotes refs/notes refs/stash refs/coffer/other refs/heads/coffer/other; cat .git/HEAD; git config --list --local | grep -v -i worktreeconfig`)
			out, err := c.Output()
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		before := state()
		coffer(t, b, b.Work, "exec", "--create", "--workspace", "worktree", "--name", "mine", "--", "sh", "-c", `
			git commit -q --allow-empty -m evil
			for r in heads/main heads/release tags/v1 tags/new remotes/origin/main remotes/x/y notes/commits coffer/other/base heads/coffer/other heads/../../HEAD; do git update-ref refs/$r HEAD; done
			echo x >>file; git stash -q
			git push -q origin HEAD:main; git push -q --force origin HEAD:refs/tags/v1
			git config remote.origin.url evil
			rm -rf /.coffer/objects/0/* /.coffer/host.git/*
			true`)
		if after := state(); after != before {
			t.Errorf("was\n%s\nis\n%s", before, after)
		}
		// What was made inside did come over, under names of its own.
		sh(t, b, b.Work, `git rev-parse -q --verify refs/heads/coffer/mine@main && git rev-parse -q --verify refs/heads/coffer/mine@coffer/other && test "$(git log -1 --format=%s coffer/mine)" = evil && git fsck`)
		coffer(t, b, b.Work, "rm", "--force", "--delete-branch", "mine")
		sh(t, b, b.Work, `test -z "$(git for-each-ref 'refs/heads/coffer/mine*' 'refs/heads/coffer/mine@*/*')"`)
	})
}

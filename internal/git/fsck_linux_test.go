package git_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// badTrees are trees that somebody, somewhere, would check out to his harm. Each is what
// git mktree reads, or an object by itself; $T is a tree, $B an empty file.
var badTrees = []struct {
	name, tree string
	word       string // what git calls it
}{
	{"a git directory", `printf '040000 tree %s\t.git\n' $T`, "hasDotgit"},
	{"a git directory where case does not count", `printf '040000 tree %s\t.GIT\n' $T`, "hasDotgit"},
	{"a git directory by its short name", `printf '040000 tree %s\tgit~1\n' $T`, "hasDotgit"},
	{"a git directory with a space behind", `printf '040000 tree %s\t.git \n' $T`, "hasDotgit"},
	{"a git directory with a mark that some file systems ignore", `printf '040000 tree %s\t.g\342\200\214it\n' $T`, "hasDotgit"},
	{"a git file", `printf '100644 blob %s\t.git\n' $B`, "hasDotgit"},
	{"the directory above", `printf '040000 tree %s\t..\n' $T`, "hasDotdot"},
	{"the directory itself", `printf '040000 tree %s\t.\n' $T`, "hasDot"},
	{"settings of submodules that are a link", `printf '120000 blob %s\t.gitmodules\n' $(printf /etc/passwd | git hash-object -w --stdin)`, "gitmodulesSymlink"},
	{"a submodule whose name leaves its directory", `printf '100644 blob %s\t.gitmodules\n' $(printf '[submodule "../../x"]\n\tpath = x\n\turl = ./x\n' | git hash-object -w --stdin)`, "gitmodulesName"},
	{"a submodule whose url is an option", `printf '100644 blob %s\t.gitmodules\n' $(printf '[submodule "x"]\n\tpath = x\n\turl = -u./evil\n' | git hash-object -w --stdin)`, "gitmodulesUrl"},
	{"a submodule whose path is an option", `printf '100644 blob %s\t.gitmodules\n' $(printf '[submodule "x"]\n\tpath = -x\n\turl = ./x\n' | git hash-object -w --stdin)`, "gitmodulesPath"},
	{"a submodule with a command", `printf '100644 blob %s\t.gitmodules\n' $(printf '[submodule "x"]\n\tpath = x\n\turl = ./x\n\tupdate = !evil\n' | git hash-object -w --stdin)`, "gitmodulesUpdate"},
}

// TestBadObjects: a commit with such a tree does not come over, and nothing moves; when it
// is gone, what is good does.
func TestBadObjects(t *testing.T) {
	commit := func(tree string) string {
		return `T=$(git rev-parse HEAD^{tree}); B=$(git hash-object -w --stdin </dev/null); c=$(git commit-tree -m bad -p HEAD $(` + tree + ` | git mktree)) && git update-ref HEAD $c`
	}
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		put(t, b, filepath.Join(b.Home, ".gitconfig"), "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n", 0o644)
		sh(t, b, b.Work, `git init -q . && echo 1 >file && git add file && git commit -qm first && git clone -q . ../clone && git clone -q . ../taker`)
		coffer(t, b, b.Work, "exec", "--create", "--workspace", "worktree", "--name", "bad", "--", "true")
		for _, bad := range badTrees {
			t.Run(bad.name, func(t *testing.T) {
				// Without the check, git takes it. Not in this repository: what it has once, it
				// does not fetch again.
				sh(t, b, b.Work, `(cd ../clone && git reset -q --soft origin/main && `+commit(bad.tree)+`) && cd ../taker && git fetch -q ../clone +HEAD:taken && git rev-parse -q --verify taken^{commit}`)
				c := b.Command("exec", "-m", "bad", "--", "sh", "-c", "git reset -q --soft origin/main; "+commit(bad.tree))
				out, err := c.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "commits were not brought over") || !strings.Contains(string(out), bad.word+":") {
					t.Errorf("want word of %s, got %v: %s", bad.word, err, out)
				}
				sh(t, b, b.Work, `test "$(git rev-parse coffer/bad)" = "$(git rev-parse main)"`)
			})
		}
		coffer(t, b, b.Work, "exec", "-m", "bad", "--", "sh", "-c", "git reset -q --soft origin/main && git commit -q --allow-empty -m good")
		sh(t, b, b.Work, `test "$(git log -1 --format=%s coffer/bad)" = good`)
	})
}

// TestTreeBomb: a commit of a few trees with a million million files comes over, but no branch
// is moved to it; git outside works as before, and so does what else is done inside.
func TestTreeBomb(t *testing.T) {
	const bomb = `t=$(git rev-parse HEAD^{tree}); for level in $(seq 12); do
t=$(for i in 0 1 2 3 4 5 6 7 8 9; do printf '040000 tree %s\t%s\n' $t $i; done | git mktree); done
git update-ref HEAD $(git commit-tree -m bomb -p HEAD $t)`
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		put(t, b, filepath.Join(b.Home, ".gitconfig"), "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n", 0o644)
		sh(t, b, b.Work, `git init -q . && echo 1 >file && git add file && git commit -qm first`)
		for _, mode := range []string{"worktree", "direct"} {
			coffer(t, b, b.Work, "exec", "--create", "--workspace", mode, "--name", mode, "--", "true")
			said := func(command string) string {
				t.Helper()
				out, err := b.Command("exec", "-m", mode, "--", "sh", "-ec", command).CombinedOutput()
				if err != nil {
					t.Errorf("%s: %v: %s", mode, err, out)
				}
				return string(out)
			}
			const word = "has too many files"
			if out := said(bomb); !strings.Contains(out, word) {
				t.Errorf("%s: got %s", mode, out)
			}
			// What else there is does come, and nobody waits for it.
			said("git update-ref refs/heads/other $(git commit-tree -m other -p origin/main origin/main^{tree})")
			sh(t, b, b.Work, `test "$(git log -1 --format=%s coffer/`+mode+`@other)" = other && ! git log coffer/`+mode+` -- | grep bomb && git status`)
			if _, err := b.Command("rm", mode).CombinedOutput(); err == nil {
				t.Errorf("%s: was removed with what has not come over", mode)
			}
			if out := said("git reset -q --soft origin/main && git commit -q --allow-empty -m good"); strings.Contains(out, word) {
				t.Errorf("%s: at last got %s", mode, out)
			}
			sh(t, b, b.Work, `test "$(git log -1 --format=%s coffer/`+mode+`)" = good`)
			coffer(t, b, b.Work, "rm", "--force", mode)
		}
	})
}

// TestFalseName: a branch that is at a commit by another's name does not come over, nor does
// the commit, whatever lies in the files inside; and the sandbox goes on.
func TestFalseName(t *testing.T) {
	const name = "1111111111111111111111111111111111111111"
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		put(t, b, filepath.Join(b.Home, ".gitconfig"), "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n", 0o644)
		sh(t, b, b.Work, `git init -q . && echo 1 >file && git add file && git commit -qm first`)
		coffer(t, b, b.Work, "exec", "--create", "--workspace", "worktree", "--name", "bad", "--", "true")
		objects := func() string { return output(t, b, "git count-objects -v; ls .git/objects/pack") }
		before := objects()
		c := b.Command("exec", "-m", "bad", "--", "sh", "-ec", `c=$(git commit-tree -m false -p HEAD HEAD^{tree}); cd "$(git rev-parse --git-dir)"
mkdir -p objects/11 refs/heads/coffer; cp objects/$(echo $c | cut -c 1-2)/$(echo $c | cut -c 3-) objects/11/`+name[2:]+`; echo `+name+` >refs/heads/coffer/bad`)
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "commits were not brought over") {
			t.Errorf("%v: %s", err, out)
		}
		sh(t, b, b.Work, `test "$(git rev-parse coffer/bad)" = "$(git rev-parse main)"`)
		if after := objects(); after != before {
			t.Errorf("before there were\n%s\nand then\n%s", before, after)
		}
		coffer(t, b, b.Work, "exec", "-m", "bad", "--", "sh", "-c", "git rev-parse origin/main >$(git rev-parse --git-dir)/refs/heads/coffer/bad; git commit -q --allow-empty -m good")
		sh(t, b, b.Work, `test "$(git log -1 --format=%s coffer/bad)" = good`)
	})
}

// TestOthersRefs: nothing that is done to refs inside touches those of the user.
func TestOthersRefs(t *testing.T) {
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

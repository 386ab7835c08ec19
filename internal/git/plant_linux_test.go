package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// A plant is something that a program leaves in a worktree so that a command which the
// user types there runs it. Planted in an ordinary worktree it must work, or it proves
// nothing.
type plant struct {
	name   string
	before string // done by the user in the repository, before there is a worktree
	plant  string // done in the worktree; $EVIL is a program that tells
	user   string // typed by the user in the worktree afterwards
}

// evilRepository makes sub a repository whose config runs $EVIL.
const evilRepository = `git init -q sub && git -C sub -c user.name=x -c user.email=x@example.com commit -q --allow-empty -m x && git -C sub config core.fsmonitor "$EVIL"
`

// insist makes git look into the submodule whatever the config says.
const insist = `printf '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n' >.gitmodules
`

var plants = []plant{
	{name: "a gitlink that was committed, to an embedded repository with fsmonitor",
		plant: evilRepository + `git add sub && git commit -qm planted`,
		user:  `git status; git diff; git diff HEAD; git status --porcelain=2`},
	{name: "the same, with a .gitmodules that insists",
		plant: evilRepository + insist + `git add -A && git commit -qm planted`,
		user:  `git status; git diff; git diff HEAD; git diff --submodule=diff; git stash; git checkout -q HEAD; git status`},
	{name: "an embedded repository that the user adds",
		plant: evilRepository + insist,
		user:  `git add -A; git status; git diff; git commit -qm mine; git status`},
	{name: "a submodule that was there, and was never checked out",
		before: `git init -q ../far && git -C ../far commit -q --allow-empty -m far && git update-index --add --cacheinfo 160000,$(git -C ../far rev-parse HEAD),sub && git commit -qm submodule`,
		plant:  `mkdir -p sub && ` + evilRepository + insist,
		user:   `git status; git diff`},
	{name: "hooks where core.hooksPath says, in the tree",
		before: `git config core.hooksPath .husky`,
		plant:  `mkdir -p .husky; for h in pre-commit post-commit post-checkout post-index-change reference-transaction; do cp "$EVIL" .husky/$h; done`,
		user:   `git commit -q --allow-empty -m mine; git checkout -q --detach; git checkout -q -`},
	{name: "hooks of the git directory",
		plant: `cp "$EVIL" "$(git rev-parse --git-path hooks)/pre-commit"`,
		user:  `git commit -q --allow-empty -m mine`},
	{name: "settings of the git directory",
		plant: `git config core.fsmonitor "$EVIL"; git config core.hooksPath "$PWD"; git config --worktree core.fsmonitor "$EVIL"; git config diff.external "$EVIL"; echo x >>file`,
		user:  `git status; git diff`},
	{name: "another .git in place of the file",
		plant: evilRepository + `rm -f .git; mv .git away; echo "gitdir: sub/.git" >.git`,
		user:  `git status`},
	{name: "a filter that the config defines",
		plant: `git config filter.evil.clean "$EVIL"; git config filter.evil.smudge "$EVIL"; echo '* filter=evil' >.gitattributes; echo x >>file`,
		user:  `git status; git diff; git add -A`},
	{name: "a text converter that the config defines",
		plant: `git config diff.evil.textconv "$EVIL"; echo '* diff=evil' >.gitattributes; echo x >>file`,
		user:  `git diff; git log -p`},
	{name: "an alias and a pager",
		plant: `git config alias.st "!$EVIL"; git config core.pager "$EVIL"; git config core.editor "$EVIL"`,
		user:  `git st; git commit --allow-empty`},
}

// TestPlants plants each in a sandbox, has the user type, and looks whether it ran.
func TestPlants(t *testing.T) {
	testbed.Binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		put(t, b, filepath.Join(b.Home, ".gitconfig"), "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n[advice]\n\taddEmbeddedRepo = false\n", 0o644)
		for i, p := range plants {
			t.Run(p.name, func(t *testing.T) {
				if !tryPlant(t, b, p, filepath.Join(b.Dir, "control", string(rune('a'+i))), false) {
					t.Fatal("the control did not work: in an ordinary worktree it must run")
				}
				if tryPlant(t, b, p, filepath.Join(b.Dir, "bridged", string(rune('a'+i))), true) {
					t.Error("it ran on the host")
				}
			})
		}
	})
}

// tryPlant says whether the plant ran outside of the sandbox.
func tryPlant(t *testing.T, b *testbed.Bed, p plant, dir string, bridged bool) bool {
	t.Helper()
	repository, marker := filepath.Join(dir, "repository"), filepath.Join(dir, "ran")
	sh(t, b, b.Dir, "mkdir -p "+repository)
	sh(t, b, repository, `git init -q . && echo 1 >file && git add file && git commit -qm first`)
	sh(t, b, repository, p.before)
	// It runs inside too, where it may; only outside is there a place for its mark.
	evil := "#!/bin/sh\ncat >/dev/null 2>&1 </dev/null; echo ran 2>/dev/null >" + marker + "\nexit 1\n"
	tree := filepath.Join(dir, "tree")
	if bridged {
		script := "cat >evil <<'END'\n" + evil + "END\nchmod +x evil; export EVIL=\"$PWD/evil\"\n" + p.plant + "\necho planted"
		coffer(t, b, repository, "exec", "--create", "--workspace", "worktree", "--", "sh", "-c", script)
		tree = strings.TrimSpace(coffer(t, b, repository, "cd"))
		coffer(t, b, repository, "stop")
	} else {
		sh(t, b, repository, "git worktree add -q ../tree")
		put(t, b, filepath.Join(tree, "evil"), evil, 0o755)
		sh(t, b, tree, "export EVIL=\"$PWD/evil\"\n"+p.plant+"\ntrue")
		os.Remove(marker)
	}
	if _, err := os.Lstat(marker); err == nil {
		t.Fatal("it ran before the user typed anything")
	}
	c := b.Program("sh", "-c", p.user)
	c.Dir = tree
	c.Env = append(c.Env, "PAGER=cat", "EDITOR=true") // which git's config overrules
	out, _ := c.CombinedOutput()
	if bridged {
		t.Logf("the user saw: %s", out)
		coffer(t, b, repository, "rm", "--force")
	}
	_, err := os.Lstat(marker)
	return err == nil
}

func sh(t *testing.T, b *testbed.Bed, dir, script string) {
	t.Helper()
	c := b.Program("sh", "-c", script)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

func coffer(t *testing.T, b *testbed.Bed, dir string, args ...string) string {
	t.Helper()
	c := b.Command(args...)
	c.Dir = dir
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		t.Fatalf("coffer %q: %v\n%s%s", args, err, out, errs.String())
	}
	return string(out)
}

func put(t *testing.T, b *testbed.Bed, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, b.UID, b.UID); err != nil && b.UID != os.Getuid() {
		t.Fatal(err)
	}
}

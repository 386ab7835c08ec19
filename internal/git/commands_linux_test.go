package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// commandPlants are for the commands of coffer that look at a sandbox's files and take
// its work. The control is git, on the same files, in an ordinary repository.
var commandPlants = []struct {
	name    string
	user    string // the user's own settings, before
	plant   string // done inside; $EVIL is a program that tells
	control string // typed by the user in an ordinary clone with the plant in it
}{
	{"a git directory with fsmonitor among the files",
		``, `git init -q sub; git -C sub config core.fsmonitor "$EVIL"; git -C sub commit -q --allow-empty -m x`, `cd sub; git status`},
	{"a submodule with fsmonitor",
		``, evilRepository + insist + `git add -A; git commit -qm planted`, `git status`},
	{"attributes for a text converter that the user has",
		`git config diff.evil.textconv "$EVIL"`, `echo '* diff=evil' >.gitattributes; echo x >>file; git add -A; git commit -qm planted; echo y >>file`, `git diff`},
	{"attributes for an external diff that the user has",
		`git config diff.evil.command "$EVIL"`, `echo '* diff=evil' >.gitattributes; echo x >>file; git add -A; git commit -qm planted; echo y >>file`, `git diff`},
	{"attributes for a filter that the user has",
		`git config filter.evil.clean "$EVIL"`, `echo '* filter=evil' >.gitattributes; echo x >>file`, `git status; git diff; git add -A`},
	{"settings of the private git directory",
		``, `git config core.fsmonitor "$EVIL"; git config diff.external "$EVIL"; git config core.pager "$EVIL"; echo x >>file; git commit -qam planted; echo y >>file`, `git status; git diff`},
	{"hooks of the private git directory",
		``, `for h in post-merge pre-merge-commit post-checkout post-index-change reference-transaction post-commit prepare-commit-msg; do cp "$EVIL" "$(git rev-parse --git-path hooks)/$h"; done; echo x >>file; git commit -qam planted`, `git commit -q --allow-empty -m mine`},
	{"hooks where the user's core.hooksPath says",
		`git config core.hooksPath .husky`, `mkdir -p .husky; cp "$EVIL" .husky/post-merge; chmod +x .husky/post-merge; git add -A; git commit -qm planted`, `git checkout -q other; git merge -q main`},
}

// commands are what the user types about a sandbox p.
var commands = []struct{ mode, words string }{
	{"worktree", "diff p;diff p --stat;review p;checkpoints p;merge p;merge p --squash;rebase p;fork p --name q;diff p q;undo p;undo p;stop p;diff p;review p;undo p 1"},
	{"direct", "diff p;review p;checkpoints p;fork p --name q;undo p;undo p;stop p;diff p;undo p 1 --force;fork p --at 2 --name r"},
	{"cow", "diff p;review p;checkpoints p;fork p --name q;undo p;undo p 1 --force"},
}

// TestPlantsForCommands: no plant is run on the host by what coffer does with it.
func TestPlantsForCommands(t *testing.T) {
	testbed.Binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		put(t, b, filepath.Join(b.Home, ".gitconfig"), "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n[advice]\n\taddEmbeddedRepo = false\n", 0o644)
		for i, p := range commandPlants {
			t.Run(p.name, func(t *testing.T) {
				dir := filepath.Join(b.Dir, "commands", string(rune('a'+i)))
				marker, evil := filepath.Join(dir, "ran"), filepath.Join(dir, "evil")
				text := "#!/bin/sh\ncat >/dev/null 2>&1 </dev/null; echo ran 2>/dev/null >" + marker + "\nexit 1\n"
				for _, kind := range []string{"control", "worktree", "direct", "cow"} {
					sh(t, b, b.Dir, "mkdir -p "+filepath.Join(dir, kind))
					put(t, b, evil, text, 0o755)
					sh(t, b, filepath.Join(dir, kind), `git init -q . && echo 1 >file && git add file && git commit -qm first && git branch other; export EVIL=`+evil+"\n"+p.user)
				}
				inside := "export EVIL=" + evil + "\n" + p.plant + "\ntrue"
				c := b.Program("sh", "-c", inside)
				c.Dir = filepath.Join(dir, "control")
				c.Run()
				os.Remove(marker)
				c = b.Program("sh", "-c", p.control)
				c.Dir = filepath.Join(dir, "control")
				c.Run()
				if _, err := os.Lstat(marker); err != nil {
					t.Fatal("the control did not work: git must run it")
				}
				os.Remove(marker)
				script := "cat >evil <<'END'\n" + text + "END\nchmod +x evil; export EVIL=\"$PWD/evil\"\n" + p.plant + "\necho planted"
				for _, typed := range commands {
					if typed.mode == "direct" && strings.Contains(p.user, "core.hooksPath") {
						continue // nothing starts where such a directory is missing
					}
					here := filepath.Join(dir, typed.mode)
					coffer(t, b, here, "exec", "--create", "--workspace", typed.mode, "--name", "p", "--", "sh", "-c", script)
					for words := range strings.SplitSeq(typed.words, ";") {
						c := b.Command(strings.Fields(words)...)
						c.Dir = here
						out, _ := c.CombinedOutput()
						if _, err := os.Lstat(marker); err == nil {
							t.Fatalf("%s: coffer %s ran it on the host: %s", typed.mode, words, out)
						}
					}
					coffer(t, b, here, "rm", "--force", "--everywhere")
				}
			})
		}
	})
}

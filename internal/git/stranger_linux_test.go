package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// planted makes, as a sandbox over the directory above could, a repository that leads git
// to $SECRET and has it run $EVIL.
const planted = `git init -q -b main . && echo 1 >file && echo '* filter=a=b' >.gitattributes && git add . && git commit -qm first
git clone -q --bare . ../other.git
`

// TestStrangersRepository starts sandboxes over a repository that somebody else made:
// neither may what its config names be run on the host, nor what it leads to be read inside.
func TestStrangersRepository(t *testing.T) {
	testbed.Binary(t)
	commit := "echo 2 >file; git commit -qam second; git log -1 --format=%s"
	look := `cat .git/info/exclude .git/info/attributes .git/shallow .git/hooks/* /.coffer/objects/*/* /.coffer/objects/*/*/* 2>/dev/null; true`
	cases := []struct {
		name, plant string
		control     string // in the repository, on the host
		args        []string
	}{
		{"a filter, for a worktree", `git config filter.a=b.smudge "$EVIL"; git config filter.a=b.process "$EVIL"`, "git worktree add ../control",
			[]string{"exec", "--create", "--net", "none", "--", "true"}},
		{"a filter, for files that are brought along", `git config filter.a=b.clean "$EVIL"; echo 2 >file`, "git status; git diff",
			[]string{"exec", "--create", "--carry", "--net", "none", "--", "true"}},
		{"what alternates are asked by", `echo "$PWD/../other.git/objects" >.git/objects/info/alternates; git config core.alternateRefsCommand "$EVIL"`,
			"git fetch ../other.git; git clone -q ../other.git ../more && cd ../more && git commit -q --allow-empty -m x && git push -q " + "\"$OLDPWD\"" + " HEAD:refs/heads/x",
			[]string{"run", "--net", "none", "--", "sh", "-c", commit}},
		{"a list of files to ignore", `git config core.excludesFile "$SECRET"`, "", []string{"run", "--net", "none", "--", "sh", "-c", look}},
		{"an included list of files to ignore", `printf '[core]\n\texcludesFile = %s\n' "$SECRET" >.git/more; git config include.path more`, "", []string{"run", "--net", "none", "--", "sh", "-c", look}},
		{"links", `ln -sf "$SECRET" .git/info/exclude; ln -sf "$SECRET" .git/info/attributes`, "", []string{"run", "--net", "none", "--", "sh", "-c", look}},
		{"hooks elsewhere", `rm -rf .git/hooks; ln -s "$(dirname "$SECRET")" .git/hooks`, "", []string{"run", "--net", "none", "--", "sh", "-c", look}},
		{"objects elsewhere", `dirname "$SECRET" >.git/objects/info/alternates`, "", []string{"run", "--net", "none", "--", "sh", "-c", look}},
		{"a pipe", `rm -f .git/packed-refs; mkfifo .git/packed-refs`, "", []string{"run", "--net", "none", "--", "true"}},
	}
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		put(t, b, filepath.Join(b.Home, ".gitconfig"), "[user]\n\tname = Ada\n\temail = ada@example.com\n", 0o644)
		for i, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				dir := filepath.Join(b.Dir, "stranger", string(rune('a'+i)))
				repository, marker, secret := filepath.Join(dir, "r"), filepath.Join(dir, "ran"), filepath.Join(dir, "secret", "key")
				sh(t, b, b.Dir, "mkdir -p "+repository+" "+filepath.Dir(secret))
				put(t, b, secret, "a-canary\n", 0o755)
				evil := filepath.Join(dir, "evil")
				put(t, b, evil, "#!/bin/sh\necho ran >"+marker+"\nexit 1\n", 0o755)
				sh(t, b, repository, "SECRET="+secret+" EVIL="+evil+"\n"+planted+c.plant)
				os.Remove(marker)
				if c.control != "" {
					p := b.Program("sh", "-c", c.control)
					p.Dir = repository
					out, _ := p.CombinedOutput()
					if _, err := os.Lstat(marker); err != nil {
						t.Fatalf("the control did not work: git of the user's must run it\n%s", out)
					}
					os.Remove(marker)
				}
				p := b.Command(c.args...)
				p.Dir = repository
				out, err := p.CombinedOutput()
				if strings.Contains(string(out), "a-canary") {
					t.Errorf("it was read inside:\n%s", out)
				}
				if _, err := os.Lstat(marker); err == nil {
					t.Errorf("it ran on the host:\n%s", out)
				}
				t.Logf("%v\n%s", err, out)
				if c.args[0] == "exec" {
					coffer(t, b, repository, "rm", "--force")
				}
			})
		}
	})
}

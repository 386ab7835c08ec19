package git_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// TestDraft: after every commit inside, the index outside is as git would have made it: files
// that are as committed are known to be, others show, and what is staged stays staged.
func TestDraft(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		testbed.Each(t, func(t *testing.T, b *testbed.Bed) { draft(t, b, format) })
	}
}

func draft(t *testing.T, b *testbed.Bed, format string) {
	put(t, b, filepath.Join(b.Home, ".gitconfig"), "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n", 0o644)
	sh(t, b, b.Work, `git init -q --object-format=`+format+` . && mkdir -p a/b && for f in a/b/1 a/b/2 a/3 four; do echo $f >$f; done && ln -s four link && git add . && git commit -qm first && git gc -q`)
	coffer(t, b, b.Work, "exec", "--create", "--workspace", "worktree", "--name", "box", "--", "true")
	tree := strings.TrimSpace(output(t, b, `git worktree list | sed -n '2s/ .*//p'`))
	for _, c := range []struct{ inside, outside, status string }{
		{"echo x >>four; git commit -qam 1", "", ""},
		{"echo x >>a/b/1; mkdir -p n/m; echo n >n/m/x; git add .; git commit -qm 2", "", ""},
		{"git rm -q a/b/2; rm link; echo file >link; chmod +x four; git add .; git commit -qm 3", "", ""},
		{"echo y >>four; git commit -qam 4; echo dirty >>a/3; echo new >new", "", " M a/3\n?? new\n"},
		{"echo z >>four; git commit -qm 5 four", "git add a/3", "M  a/3\n?? new\n"},
		{"git commit -qm 6 a/3; rm new", "", ""},
		{"git rm -qr n; echo file >n; git add n; git commit -qm 7", "", ""},
		{"git rm -q n; mkdir n; echo file >n/x; git add n; git commit -qm 8", "", ""},
		{"printf '*.crlf text eol=crlf\\n' >.gitattributes; printf 'a\\r\\n' >a.crlf; git add .; git commit -qm 9", "", ""},
		{"printf 'b\\r\\n' >>a.crlf; git add .; git commit -qm 10", "", ""},
		{"git reset -q --hard HEAD~4", "", ""},
		{"git checkout -q -b other; echo o >o; git add o; git commit -qm 11", "", ""},
	} {
		coffer(t, b, b.Work, "exec", "-m", "box", "--", "sh", "-ec", c.inside)
		if c.outside != "" {
			sh(t, b, tree, c.outside)
		}
		// This git does not look at contents but where the index leaves doubts.
		if got := output(t, b, "cd '"+tree+"' && GIT_OPTIONAL_LOCKS=0 git status --porcelain"); got != c.status {
			t.Errorf("%s: after %s: git status says\n%s\nwant\n%s", format, c.inside, got, c.status)
		}
		sh(t, b, tree, `git fsck --strict`)
		if c.status == "" {
			sh(t, b, tree, `git diff-files --quiet && git diff-index --quiet --cached HEAD`)
		}
	}
}

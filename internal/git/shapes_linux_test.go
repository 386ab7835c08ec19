package git_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// A shape is a kind of repository that people have. $R is where it is made.
type shape struct {
	name  string
	make  string // makes it, in an empty directory
	at    string // where in it the user is
	check string // must hold inside
	no    string // why there can be no worktree of it, if so
	none  string // why a throw-away over it cannot commit, if so
}

const first = `git init -q . && echo 1 >file && git add -A && git commit -qm first`

var shapes = []shape{
	{name: "submodules", make: `git init -q far && (cd far && echo far >f && git add f && git commit -qm far) && git init -q r && cd r && echo 1 >file && git add file && git -c protocol.file.allow=always submodule --quiet add ../far sub && git commit -qm first`,
		at: "r", check: `git submodule status && git ls-files -s sub | grep -q ^160000`},
	{name: "large files", make: first + ` && mkdir -p .git/lfs/objects/aa && echo large >.git/lfs/objects/aa/x`,
		// Where git-lfs looks: beside the objects that alternates name.
		check: `grep -q large "$(head -1 "$(git rev-parse --git-dir)/objects/info/alternates")/../lfs/objects/aa/x"`},
	{name: "sha256", make: `git init -q --object-format=sha256 . && echo 1 >file && git add -A && git commit -qm first`,
		check: `test "$(git rev-parse HEAD | wc -c)" = 65`},
	{name: "a shallow clone", make: `git init -q far && (cd far && git commit -q --allow-empty -m one && echo 1 >file && git add file && git commit -qm two) && git clone -q --depth 1 "file://$PWD/far" r`,
		at: "r", check: `test "$(git rev-list --count HEAD)" = 1 && git fsck`},
	{name: "a partial clone", make: `git init -q far && (cd far && echo 1 >file && git add file && git commit -qm one && git config uploadpack.allowFilter true) && git clone -q --filter=blob:none "file://$PWD/far" r`,
		at: "r", check: `test "$(git log -1 --format=%s)" = one && git fsck`},
	{name: "a partial clone without old trees", make: `git init -q far && (cd far && git config uploadpack.allowFilter true && git config uploadpack.allowAnySHA1InWant true && for i in 1 2 3; do mkdir d$i; echo $i >file; echo $i >d$i/f; git add -A; git commit -qm $i; done) && git clone -q --filter=tree:0 "file://$PWD/far" r`,
		at: "r", check: `test "$(git rev-list --count HEAD)" = 3 && test -f d3/f && test -z "$(git status --short)"`},
	{name: "a partial clone without files of HEAD", make: `git init -q far && (cd far && git config uploadpack.allowFilter true && mkdir d && echo 1 >d/file && git add -A && git commit -qm one) && git clone -q --no-checkout --filter=blob:none "file://$PWD/far" r`,
		at: "r", no: "objects of the commit", check: `git reset -q; git log -1`, none: "could not fetch"},
	{name: "a linked worktree", make: `mkdir r && cd r && ` + first + ` && git worktree add -q -b other ../linked && cd ../linked && echo 2 >file && git commit -qam second`,
		at: "linked", check: `test "$(git log -1 --format=%s)" = second`},
	{name: "a bare repository with worktrees beside it", make: `mkdir r && (cd r && ` + first + `) && git clone -q --bare r .bare && echo "gitdir: ./.bare" >.git && git worktree add -q main && rm -rf r`,
		at: "main", check: `test -f file`},
	{name: "a bare repository", make: `mkdir r && (cd r && ` + first + `) && git clone -q --bare r b.git`,
		at: "b.git", check: `test -f file`, none: "git directory"},
	{name: "the directory with a bare repository and its worktrees", make: `mkdir r && (cd r && ` + first + `) && git clone -q --bare r .bare && echo "gitdir: ./.bare" >.git && rm -rf r`,
		check: `git log -1 --format=%s | grep first`, none: "work tree"},
	{name: "many files", make: `mkdir d && seq 3000 | (cd d && xargs -n 1000 sh -c 'for i; do echo $i >f$i; done' -) && ` + first,
		check: `test "$(git ls-files | wc -l)" -gt 3000`},
	{name: "odd names", make: `mkdir -- "-odd näme" && cd -- "-odd näme" && ` + first + ` && n="$(printf 'a\nb')" && mkdir -- "$n" && echo x >"$n/-ü \"q\"" && git add -A && git commit -qm odd && git branch "zweig-ü" && git checkout -q -b "topic/ü#1"`,
		at: "-odd näme", check: `test "$(git log -1 --format=%s)" = odd && git rev-parse -q --verify "origin/zweig-ü" && test -f "$(printf 'a\nb')/-ü \"q\""`},
	{name: "a detached HEAD", make: first + ` && git commit -q --allow-empty -m second && git checkout -q --detach HEAD~1`,
		check: `test "$(git log -1 --format=%s)" = first`},
	{name: "packed refs and objects", make: first + ` && git tag -a v1 -m v1 && git gc -q && git pack-refs --all`,
		check: `test "$(git describe)" = v1`},
	{name: "alternates", make: `mkdir far && (cd far && ` + first + `) && git clone -q --shared far r && cd r && git commit -q --allow-empty -m second`,
		at: "r", check: `git cat-file -e HEAD~1:file`},
	{name: "housekeeping turned off", make: first + ` && git config gc.auto 0 && git config maintenance.auto false`,
		check: `test "$(git config gc.auto)" = 0 && test "$(git config maintenance.auto)" = false`},
	{name: "no commit", make: `git init -q . && echo 1 >file`, no: "the repository has no commit yet"},
}

// TestShapes makes a worktree of each, and runs a throw-away over each. A commit made inside
// must arrive, or it says why it cannot.
func TestShapes(t *testing.T) {
	testbed.Binary(t)
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		put(t, b, filepath.Join(b.Home, ".gitconfig"), "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n", 0o644)
		for i, s := range shapes {
			t.Run(s.name, func(t *testing.T) {
				dir := filepath.Join(b.Dir, "shapes", string(rune('a'+i)))
				sh(t, b, b.Dir, "mkdir -p "+dir)
				sh(t, b, dir, s.make)
				here := filepath.Join(dir, s.at)
				check := s.check
				if check == "" {
					check = "true"
				}
				name := "s" + string(rune('a'+i))
				script := "set -e; " + check + "; echo new >new; git add new; git commit -qm inside"
				tryShape(t, b, here, s.no, name, "exec", "--create", "--workspace", "worktree", "--name", name, "--", "sh", "-c", script)
				if s.no == "" {
					coffer(t, b, here, "rm", "--force", name)
				}
				tryShape(t, b, here, s.none, "r"+name, "run", "--name", "r"+name, "--", "sh", "-c", script)
			})
		}
	})
}

func tryShape(t *testing.T, b *testbed.Bed, dir, no, name string, args ...string) {
	t.Helper()
	c := b.Command(args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if no != "" {
		if err == nil || !strings.Contains(strings.ToLower(string(out)), no) {
			t.Errorf("coffer %s: want a refusal about %q, got %v: %s", args[0], no, err, out)
		}
		return
	}
	if err != nil {
		t.Errorf("coffer %s: %v\n%s", args[0], err, out)
		return
	}
	sh(t, b, dir, `test "$(git log -1 --format=%s coffer/`+name+`)" = inside || { git for-each-ref; exit 1; }`)
}

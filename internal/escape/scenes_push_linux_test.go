package escape

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A shove is a push that is not a sandbox's to make. Outside, the same is done to the
// remote without anybody in between. $C is a commit that nobody has yet, $F what is on main.
type shove struct {
	n, name string
	inside  string // in the worktree
	outside string // in a clone; the remote is origin
}

// raw sends bytes to the endpoint as no git would. The reply is read, so that all of it has
// been taken in.
const raw = `raw() { b=$(mktemp); cat >"$b"; exec 3<>/dev/tcp/coffer.internal/80; { printf 'POST /git/git-receive-pack HTTP/1.1\r\nHost: coffer.internal\r\nContent-Type: application/x-git-receive-pack-request\r\nContent-Length: %s\r\nConnection: close\r\n\r\n' "$(stat -c %s "$b")"; cat "$b"; } >&3; timeout 20 cat <&3; exec 3>&-; }
pkt() { printf '%04x%s' $((${#1}+4)) "$1"; }
caps() { printf '%s' ' report-status side-band-64k object-format=sha1 agent=git/2'; }
Z=0000000000000000000000000000000000000000
first() { l=$((${#1}+${#2}+5)); printf '%04x%s\0%s' $l "$1" "$2"; }
`

var shoves = []shove{
	{"127.main", "push to main", `git push -q origin HEAD:main`, `git push -q origin HEAD:main`},
	{"127.force", "rewrite main", `git push -q --force origin HEAD:main`, `git push -q --force origin HEAD:main`},
	{"127.del", "delete main", `git push -q origin :main`, `git push -q origin :main`},
	{"127.new", "make a branch that is not its own", `git push -q origin HEAD:refs/heads/new`, `git push -q origin HEAD:refs/heads/new`},
	{"127.othr", "push to the branch of another sandbox", `git push -q --force origin HEAD:coffer/other; git push -q --force origin HEAD:coffer/other@x`, `git push -q --force origin HEAD:coffer/other`},
	{"127.tag", "push a tag", `git tag v2; git push -q origin v2; git push -q --force origin HEAD:refs/tags/v1; git push -q --follow-tags origin HEAD:main`, `git push -q origin HEAD:refs/tags/v2`},
	{"127.ref", "push to refs that are no branches", `git push -q origin HEAD:refs/notes/x HEAD:refs/coffer/x HEAD:refs/pull/1/head; git push -q origin HEAD:refs/x/y`, `git push -q origin HEAD:refs/notes/x`},
	{"127.mirr", "push everything, and prune the rest", `git push -q --mirror origin; git push -q --all --prune origin`, `git push -q --mirror origin`},
	{"127.raw", "delete main by a request that no git makes", raw + `{ first "$F $Z refs/heads/main" "$(caps)"; printf 0000; } | raw`, `git push -q origin :main`},
	{"127.twin", "name a branch of its own and main, each after the other", raw + `{ first "$Z $C refs/heads/coffer/box" "$(caps)"; pkt "$F $Z refs/heads/main"; printf 0000; } | raw`, `git push -q origin HEAD:coffer/box :main`},
	{"127.long", "send more commands than are taken", raw + `{ first "$F $Z refs/heads/main" "$(caps)"; i=0; while [ $i -lt 40 ]; do pkt "$Z $C refs/heads/x$i"; i=$((i+1)); done; printf 0000; } | raw`, `for i in 1 2 3 4 5 6 7 8 9; do set -- "$@" HEAD:refs/heads/x$i; done; git push -q origin :main "$@"`},
	{"127.line", "send a line that does not end", raw + `{ printf 'ffff%s %s refs/heads/main' "$F" "$Z"; head -c 70000 /dev/zero | tr '\0' a; } | raw`, `git push -q origin :main`},
	{"127.pack", "send objects with the push that were never checked", raw + `t=$(printf '040000 tree %s\t.git\n' "$(git rev-parse HEAD^{tree})" | git mktree); c=$(git commit-tree -m bad -p "$F" "$t"); { first "$Z $c refs/heads/coffer/box" "$(caps)"; printf 0000; printf '%s\n' "$c" "^$F" | git pack-objects -q --revs --stdout; } | raw; git push -q origin "$c:refs/heads/coffer/box"`,
		`t=$(printf '040000 tree %s\t.git\n' "$(git rev-parse HEAD^{tree})" | git mktree); c=$(git commit-tree -m bad -p "$F" "$t"); git push -q origin "$c:refs/heads/coffer/box"`},
	{"127.junk", "send a pack that is none, for a commit of nobody's", raw + `{ first "$Z 1111111111111111111111111111111111111111 refs/heads/coffer/box" "$(caps)"; printf 0000; printf PACK; head -c 100000 /dev/urandom; } | raw`,
		`git push -q origin HEAD:coffer/box`},
	{"127.opt", "name an option for a ref", raw + `{ first "$Z $C refs/heads/--receive-pack=evil" "$(caps)"; printf 0000; } | raw; { first "$Z $C --mirror" "$(caps)"; printf 0000; } | raw; { first "$Z $C refs/heads/x:refs/heads/main" "$(caps)"; printf 0000; } | raw`,
		`git push -q origin HEAD:refs/heads/--receive-pack=evil`},
}

// pushedRepository makes each, where the user allows pushes: what is not the sandbox's own
// stays as it is all the same. Then the one that it may make.
func pushedRepository(s *stage) {
	if _, err := os.Stat("/bin/bash"); err != nil {
		return
	}
	in := s.pushStage("push-in")
	untouched := remoteRefs(s, in)
	box := func(args ...string) {
		s.coffer(in+"/repository", append([]string{"exec", "-m", "box", "--"}, args...)...)
	}
	s.coffer(in+"/repository", "exec", "--create", "--trust", "--name", "box", "--", "git", "commit", "-q", "--allow-empty", "-m", "mine")
	for _, v := range shoves {
		out := s.pushStage("push-" + v.n)
		s.script(out+"/clone", "git commit -q --allow-empty -m evil; "+v.outside)
		free := remoteRefs(s, out) != untouched
		box("/bin/bash", "-c", "F=$(git rev-parse origin/main) C=$(git rev-parse HEAD)\n"+v.inside+"\ntrue")
		// What is its own may well go along.
		kept := strings.ReplaceAll(remoteRefs(s, in), "refs/heads/coffer/box mine\n", "") == untouched
		s.r.judge(v.n, "git push: "+v.name, free, happened(free), kept, happened(!kept))
	}
	box("git", "commit", "-q", "--allow-empty", "-m", "own")
	box("git", "push", "-q")
	works := strings.Contains(remoteRefs(s, in), "refs/heads/coffer/box own\n")
	s.r.judge("127.own", "git push: to its own branch, which has to work", true, "-", works, happened(works))
	s.coffer(in+"/repository", "rm", "--force", "--everywhere")
}

// pushStage has a remote, the user's repository, and a clone for controls.
func (s *stage) pushStage(name string) string {
	s.t.Helper()
	dir := s.fresh(name)
	s.here.put(filepath.Join(dir, "repository/coffer.toml"), "[git]\npush = \"allow\"\n", 0o644)
	s.here.own(filepath.Dir(dir))
	s.script(dir, `git init -q --bare up.git && git -C up.git config receive.denyDeleteCurrent ignore && cd repository && git init -q . && git config user.name Ada && git config user.email ada@example.com && git add -A && git commit -qm first && git remote add origin ../up.git && git push -q -u origin main main:coffer/other && git tag v1 && git push -q origin v1 && git fetch -q && git clone -q ../up.git ../clone`)
	return dir
}

// script runs one of the user's, outside.
func (s *stage) script(dir, text string) {
	s.t.Helper()
	who := "export GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=ada@example.com GIT_COMMITTER_NAME=Ada GIT_COMMITTER_EMAIL=ada@example.com GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000' GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=init.defaultBranch GIT_CONFIG_VALUE_0=main\nF=$(git rev-parse -q --verify origin/main 2>/dev/null)\n"
	c := s.bed.Program("/bin/bash", "-c", who+text)
	c.Dir = dir
	if got := s.run(c); got.code != 0 && strings.HasSuffix(dir, "/push-in") {
		s.t.Fatalf("%s: %s", text, got.err)
	}
}

// remoteRefs are what the remote has.
func remoteRefs(s *stage, dir string) string {
	c := s.bed.Program("git", "-C", dir+"/up.git", "for-each-ref", "--format=%(refname) %(subject)")
	got := s.run(c)
	return fmt.Sprint(got.out, got.err)
}

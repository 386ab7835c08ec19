package escape

import (
	"os"
	"path/filepath"
	"strings"
)

// A hole is a way by which git, or something that runs git for a sandbox, was made to hurt
// the host elsewhere. $MARK is a file of the host that a program leaves when it ran there,
// $SECRET one that nobody inside may read or write, $UP the user's upstream.
type hole struct {
	n, name string
	inside  string // done in the worktree by the program
	user    string // typed by the user in the worktree afterwards
	hurt    string // holds if it worked
}

// evilProgram and evilRepository are what a program leaves: the one tells that it ran, the
// other is a repository in sub that has git run it.
const (
	evilProgram    = `printf '#!/bin/sh\necho ran 2>/dev/null >%s\n' "$MARK" >evil; chmod +x evil; EVIL=$PWD/evil; `
	evilRepository = evilProgram + `git init -q sub; git -C sub commit -q --allow-empty -m x; git -C sub config core.fsmonitor "$EVIL"; `
	looksAround    = `coffer ls; coffer diff; coffer review; git status; git diff; git stash; git checkout -q HEAD; true`
)

var holes = []hole{
	{"120", "an embedded git directory with fsmonitor, added by the user", evilRepository, `git add -A; ` + looksAround, `test -e "$MARK"`},
	{"121", "a gitlink in the index, then git status outside", evilRepository + `printf '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n' >.gitmodules; git add -A; git commit -qm planted`, looksAround, `test -e "$MARK"`},
	{"122", "a directory that looks like a bare repository", evilProgram + `git init -q --bare looks; git -C looks config core.bare false; git -C looks config core.worktree "$PWD"; git -C looks config core.fsmonitor "$EVIL"; mv looks/* . 2>/dev/null; rm -f .git; mv .git away 2>/dev/null; true`, looksAround, `test -e "$MARK"`},
	{"123", "read a file of the host by git diff --no-index", `git diff --no-index /dev/null "$SECRET" >stolen; true`, `true`, `grep -q canary stolen`},
	{"124", "a link named like a ref, and a hook that writes to its argument", `mkdir -p "$(git rev-parse --git-path hooks)"; printf '#!/bin/sh\necho evil >>v1\n' >"$(git rev-parse --git-path hooks)/prepare-commit-msg"; chmod +x "$(git rev-parse --git-path hooks)/prepare-commit-msg"; ln -s "$SECRET" v1; git commit -q --allow-empty -C v1; true`, `git commit -q --allow-empty -C v1`, `grep -q evil "$SECRET"`},
	{"125", "options in another order, to move the user's branch", `git commit -q --allow-empty -m evil; git switch -q -C release; git branch -f release HEAD; git update-ref refs/heads/release HEAD; true`, `true`, `test "$(git -C "$R" log -1 --format=%s release)" = evil`},
	{"126", "pretend to be another sandbox", `git commit -q --allow-empty -m evil; git update-ref refs/heads/coffer/other HEAD; git update-ref refs/coffer/other/base HEAD; true`, `true`, `git -C "$R" log --format=%s coffer/other refs/coffer/other/base | grep -q evil`},
	{"127", "push to the upstream that the user's branch follows", `git commit -q --allow-empty -m evil; git config push.default upstream; git push -q origin HEAD:main; git push -q "$UP" HEAD:main; true`, `true`, `git -C "$UP" log --format=%s main | grep -q evil || git -C "$R" log --format=%s main | grep -q evil`},
	{"128", "swap .git between a look and the use", evilRepository + `echo "gitdir: $PWD/sub/.git" >other; (i=0; while [ $i -lt 200 ]; do ln -f other .git; mv -f .git aside; mv -f other .git; cp aside other; i=$((i+1)); done) 2>/dev/null; true`, looksAround, `test -e "$MARK"`},
}

// bridgedRepository tries each hole, in an ordinary worktree for control.
func bridgedRepository(s *stage) {
	for _, h := range append(holes, gitHoles...) {
		free, kept := s.tryHole(h, false), s.tryHole(h, true)
		s.r.judge(h.n, h.name, free, happened(free), !kept, happened(kept))
	}
}

func happened(yes bool) string {
	if yes {
		return "ok+changed"
	}
	return "nothing"
}

// tryHole says whether it worked.
func (s *stage) tryHole(h hole, bridged bool) bool {
	s.t.Helper()
	where := "bridge-out-" + h.n
	if bridged {
		where = "bridge-in-" + h.n
	}
	dir := s.fresh(where)
	vars := "R=" + dir + "/repository; MARK=" + dir + "/mark; SECRET=" + dir + "/secret; UP=" + dir + "/up.git\n" +
		"export GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=ada@example.com GIT_COMMITTER_NAME=Ada GIT_COMMITTER_EMAIL=ada@example.com\n"
	outside := vars + "export GIT_CONFIG_GLOBAL=" + dir + "/gitconfig\n"
	must(s.t, os.WriteFile(filepath.Join(dir, "gitconfig"), []byte("[init]\n\tdefaultBranch = main\n[advice]\n\taddEmbeddedRepo = false\n"), 0o644))
	must(s.t, os.WriteFile(filepath.Join(dir, "secret"), []byte("canary\n"), 0o600))
	s.here.own(filepath.Dir(dir))
	host := func(at, script string) result {
		c := s.bed.Program("/bin/sh", "-c", outside+`coffer() { "`+s.bed.Coffer+`" "$@"; }`+"\n"+script)
		c.Dir = at
		return s.run(c)
	}
	made := host(dir, `git init -q --bare up.git && git init -q repository && cd repository && echo 1 >file && git add file && git commit -qm first && git branch release && git branch coffer/other && git update-ref refs/coffer/other/base HEAD && git remote add origin "$UP" && git push -q -u origin main && git tag v1`)
	if made.code != 0 {
		s.t.Fatalf("make a repository: %s", made.err)
	}
	tree, repository := dir+"/tree", dir+"/repository"
	if bridged {
		got := s.coffer(repository, "exec", "--create", "--", "/bin/sh", "-c", vars+h.inside)
		if got.code != 0 {
			s.t.Fatalf("%s: inside: %s", h.name, got.err)
		}
		tree = strings.TrimSpace(s.coffer(repository, "cd").out)
	} else {
		host(repository, "git worktree add -q ../tree")
		host(tree, h.inside)
		os.Remove(dir + "/mark") // what it did itself does not count
	}
	host(tree, h.user)
	hurt := host(tree, h.hurt)
	if bridged {
		s.coffer(repository, "rm", "--force", "--everywhere")
	}
	return hurt.code == 0
}

package escape

import (
	"os"
	"strings"
)

// A typed is something that a program leaves in the user's own files, for a command that the user
// types there afterwards. $MARK and $R are those of a [hole].
type typed struct {
	n, name string
	way     []string // how the program is started
	before  string   // done by the user
	inside  string
	user    string
	hurt    string
}

var jailed = []string{"jail", "-q", "--net", "host"}

const ran = `test -e "$MARK"`

var typedAfterwards = []typed{
	{"130", "a jail makes .git/COMMIT_EDITMSG a link, then git commit", jailed, ``,
		`ln -sf "$MARK" .git/COMMIT_EDITMSG; echo evil >.git/SQUASH_MSG`, `echo x >>file; git add file; EDITOR=true git commit -q`, `grep -q evil "$MARK"`},
	{"130.log", "a jail makes .git/logs/HEAD a link, then git commit", jailed, ``,
		`ln -sf "$MARK" .git/logs/HEAD`, `git commit -q --allow-empty -m mine`, ran},
	{"130.wt", "a jail writes .git/config.worktree, which begins to count, then git status", jailed, ``,
		evilProgram + `printf '[core]\n\tfsmonitor = %s\n' "$EVIL" >.git/config.worktree`, `git config extensions.worktreeConfig true; git status`, ran},
	{"130.idx", "a jail records a repository as a submodule, then git status", jailed, ``,
		evilRepository + `git add sub`, `git status`, ran},
	{"130.tree", "a jail does so to a linked worktree's git directory", append(jailed, "-C", "../tree"), `git worktree add -q ../tree`,
		`cd ../tree; ln -s "$MARK" "$(git rev-parse --git-dir)/COMMIT_EDITMSG"; echo evil >"$(git rev-parse --git-dir)/SQUASH_MSG"`,
		`cd ../tree; echo x >>file; git add file; EDITOR=true git commit -q`, `grep -q evil "$MARK"`},
}

// typedCommands tries each, and without a wall for control.
func typedCommands(s *stage) {
	for _, a := range typedAfterwards {
		free, kept := s.tryTyped(a, false), s.tryTyped(a, true)
		s.r.judge(a.n, a.name, free, happened(free), !kept, happened(kept))
	}
}

func (s *stage) tryTyped(a typed, walled bool) bool {
	s.t.Helper()
	where := "typed-out-" + a.n
	if walled {
		where = "typed-in-" + a.n
	}
	dir := s.fresh(where)
	script := "R=" + dir + "/repository; MARK=" + dir + "/mark\n" +
		"export GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=ada@example.com GIT_COMMITTER_NAME=Ada GIT_COMMITTER_EMAIL=ada@example.com GIT_CONFIG_GLOBAL=" + dir + "/gitconfig\n"
	host := func(at, text string) result {
		c := s.bed.Program("/bin/sh", "-c", script+`coffer() { "`+s.bed.Coffer+`" "$@"; }`+"\n"+text)
		c.Dir = at
		return s.run(c)
	}
	repository := dir + "/repository"
	made := host(dir, `printf '[init]\n\tdefaultBranch = main\n[advice]\n\taddEmbeddedRepo = false\n' >gitconfig; git init -q repository && cd repository && echo 1 >file && git add file && git commit -qm first && git branch release; `+a.before)
	if made.code != 0 {
		s.t.Fatalf("make a repository: %s", made.err)
	}
	if walled {
		c := s.bed.Command(append(a.way, "--", "/bin/sh", "-c", strings.ReplaceAll(script, "GIT_CONFIG_GLOBAL=", "NONE=")+a.inside)...)
		c.Dir = repository
		s.run(c)
	} else {
		host(repository, a.inside)
		os.Remove(dir + "/mark") // what it did itself does not count
	}
	if exists(dir + "/mark") {
		return true
	}
	host(repository, a.user)
	return host(repository, a.hurt).code == 0
}

package escape

import (
	"os"
	"slices"
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

var (
	jailed = []string{"jail", "-q", "--net", "host"}
	direct = []string{"run", "--name", "plant"}
	tree   = []string{"exec", "--create", "--name", "plant", "--workspace", "worktree"}
)

// evilIn makes a repository that has git run a program in a directory.
func evilIn(dir string) string {
	return evilProgram + `mkdir -p ` + dir + `; (cd ` + dir + ` && rm -rf .git && git init -q . && git commit -q --allow-empty -m x && for k in core.fsmonitor core.sshCommand; do git config $k "$EVIL"; done; git config remote.origin.url ssh://localhost:1/x; cp "$EVIL" .git/hooks/post-checkout); `
}

const (
	merges     = `git merge -q coffer/plant; coffer merge plant; git status; git diff; git submodule status; git stash`
	submodule  = `git init -q ../far; git -C ../far commit -q --allow-empty -m far; git -c protocol.file.allow=always submodule --quiet add ../far deep/sub; git commit -qm submodule; git submodule deinit -q -f --all; rm -rf .git/modules`
	submodules = `git submodule status; git -c protocol.file.allow=always submodule update --init; git -c protocol.file.allow=always submodule update --init --recursive --force; git submodule foreach true; git submodule sync; git submodule summary; git status; git submodule deinit -f --all; true`
)

const (
	settings      = `mkdir -p pkg/.vscode deep/down/.claude .husky; echo 1 | tee pkg/.vscode/tasks.json deep/down/.claude/settings.json .husky/pre-commit pkg/.envrc a.code-workspace lefthook.yml >/dev/null`
	plantSettings = `for f in pkg/.vscode/tasks.json deep/down/.claude/settings.json .husky/pre-commit pkg/.envrc a.code-workspace lefthook.yml; do echo evil >>$f; echo evil >new; mv new $f; rm -f $f; done; rm -f new; rm -rf pkg/.vscode; mkdir pkg/.vscode && echo evil >pkg/.vscode/x; mv pkg other && mkdir -p pkg/.vscode && echo evil >pkg/.vscode/x; true`
)

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
	{"130.tree", "a jail does so to a linked worktree's git directory", append(slices.Clone(jailed), "-C", "../tree"), `git worktree add -q ../tree`,
		`cd ../tree; ln -s "$MARK" "$(git rev-parse --git-dir)/COMMIT_EDITMSG"; echo evil >"$(git rev-parse --git-dir)/SQUASH_MSG"`,
		`cd ../tree; echo x >>file; git add file; EDITOR=true git commit -q`, `grep -q evil "$MARK"`},
	{"131", "a commit with a gitlink to a repository deep in vendor, then git merge and git status", direct, ``,
		evilIn("vendor/a/b/s") + `git add -f vendor; git commit -qm planted`, merges, ran},
	{"131.mod", "the same deep in node_modules, and taken out again by the next commit", direct, ``,
		evilIn("node_modules/p/q/node_modules/r/s") + `git add -f node_modules; git commit -qm planted; git rm -qf --cached -r node_modules; git commit -qm clean`,
		`git merge -q coffer/plant; coffer merge plant; git checkout -q coffer/plant~1 2>/dev/null || git checkout -q HEAD~1; git status`, ran},
	{"131.brn", "the same on another branch, by a merge", direct, ``,
		evilIn("vendor/a/b/s") + `git checkout -q -b side; git add -f vendor; git commit -qm planted`, `git merge -q coffer/plant@side; ` + merges, ran},
	{"131.tag", "the same under a tag", direct, ``,
		evilIn("vendor/a/b/s") + `git add -f vendor; git commit -qm planted; git tag evil`, `git merge -q coffer/tag/plant/evil; ` + merges, ran},
	{"131.stsh", "the same in a stash", direct, ``,
		evilIn("vendor/a/b/s") + `git add -f vendor; git stash -q; ` + evilIn("vendor/a/b/s"), `for s in $(git for-each-ref --format='%(refname)' refs/coffer/stash refs/stash); do git stash apply --index "$s"; done; git status; git diff`, ran},
	{"131.rebs", "the same, and git rebase, git pull and git cherry-pick", direct, ``,
		evilIn("vendor/a/b/s") + `git add -f vendor; git commit -qm planted`,
		`git rebase -q coffer/plant; git status; git pull -q . coffer/plant; git status; git cherry-pick coffer/plant; git status; git checkout -q coffer/plant; git status`, ran},
	{"131.tree", "the same from a worktree, where another program has planted what it names", tree, evilProgram + evilIn("vendor/a/b/s") + `true`,
		evilIn("vendor/a/b/s") + `git add -f vendor; git commit -qm planted`, merges, ran},
	{"132", "a repository in the place of a submodule, then git submodule update --init", tree, submodule,
		`mkdir -p deep/sub; ` + evilIn("deep/sub"), `cd "$T"; ` + submodules, ran},
	{"132.mv", "the same, after the directory above was moved away", tree, submodule,
		`mv deep away; mkdir -p deep/sub; ` + evilIn("deep/sub"), `cd "$T"; ` + submodules, ran},
	{"132.new", "a submodule that is new, then git submodule update --init", tree, ``,
		evilIn("deep/sub") + `git config -f .gitmodules submodule.s.path deep/sub; git config -f .gitmodules submodule.s.url ../far; git add -A; git commit -qm planted`, `cd "$T"; ` + submodules, ran},
	{"133", "settings of editors, agents, hooks and shells that are there, in a direct workspace", direct, settings, plantSettings, `true`, `grep -rq evil .`},
	{"133.jail", "the same in a jail, also those that are not there", jailed, settings, plantSettings + `; for n in .devcontainer.json .aider.conf.yml .windsurf .roo .qwen .kiro .continue crush.json .husky; do mkdir -p $n; echo evil >$n/x || echo evil >$n; done`, `true`, `grep -rq evil .`},
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
		c := s.bed.Command(append(a.way, "--", "/bin/sh", "-c", strings.ReplaceAll(script, "GIT_CONFIG_GLOBAL=", "NONE=")+a.inside+"\necho planted")...)
		c.Dir = repository
		if r := s.run(c); !containsLine(r.out, "planted") {
			s.t.Fatalf("%s: inside: %d %s%s", a.name, r.code, r.out, r.err)
		}
	} else {
		host(repository, a.inside)
		os.Remove(dir + "/mark") // what it did itself does not count
	}
	if exists(dir + "/mark") {
		return true
	}
	if walled && a.way[0] == "exec" {
		script += "T=" + strings.TrimSpace(s.coffer(repository, "cd").out) + "\n"
		defer s.coffer(repository, "rm", "--force", "--everywhere")
	} else {
		script += "T=" + repository + "\n"
	}
	host(repository, a.user)
	return host(repository, a.hurt).code == 0
}

package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// A flow is something that people and agents do with git. It starts on the branch work, at
// the tag start, in a clean tree.
type flow struct{ name, script string }

// commits makes a few, one file each.
const commits = `for i in one two three four; do echo $i >$i; git add $i; git commit -qm "add $i"; done
`

var flows = []flow{
	{"commit and amend", `echo x >>a; git commit -am change; echo y >>a; git commit -q --amend -a --no-edit; git commit --allow-empty -m "$(printf 'subject\n\nbody')"; git log --format='%H %s%n%b'`},
	{"commit parts", `echo x >>a; echo y >>b; git add a; git commit -m a; git commit -m b -- b; printf 'y\nn\n' | git add -p; git diff --cached --stat; git show --stat HEAD`},
	{"fixup", commits + `echo x >>two; git commit -qa --fixup HEAD~2; GIT_SEQUENCE_EDITOR=true git rebase -q -i --autosquash start; git log --format='%H %s'`},
	{"branches", `git branch other; git checkout other; git checkout -q -b third; git commit -q --allow-empty -m x; git branch -m third renamed; git branch -d other; git branch -D renamed; git switch work; git branch -D renamed; git branch --list 'o*'; git switch -; git checkout -q -; git branch -D renamed`},
	{"detached", `git checkout HEAD~1; git commit --allow-empty -m x; git checkout -q work; git reflog -3`},
	{"rebase", commits + `git checkout -q -b side start; echo z >z; git add z; git commit -qm z; git rebase work; git log --graph --oneline; git branch -q -D side 2>/dev/null; git checkout -q work; git branch -D side`},
	{"rebase -i", commits + `GIT_SEQUENCE_EDITOR="sed -i -e 1s/pick/reword/ -e 2s/pick/squash/ -e 3s/pick/drop/" GIT_EDITOR='sed -i 1s/^/new:\ /' git rebase -i start; git log --stat --format='%H %B'`},
	{"rebase -i with exec and break", commits + `GIT_SEQUENCE_EDITOR='sed -i -e "1a exec echo ran >>log" -e "2a break"' git rebase -i start; git status; git rebase --continue; cat log`},
	{"rebase with a conflict", `echo 1 >a; git commit -qam 1; git checkout -q -b side start; echo 2 >a; git commit -qam 2; git rebase work; git status --short; echo 3 >a; git add a; GIT_EDITOR=true git rebase --continue; git rebase --abort; git log --oneline; git checkout -q work; git branch -D side`},
	{"rebase --onto, abort and skip", commits + `git rebase --onto start HEAD~2; git log --oneline; echo 9 >a; git commit -qam 9; git checkout -q -b side start; echo 8 >a; git commit -qam 8; git rebase work; git rebase --skip; git log --oneline; git checkout -q work; git branch -D side`},
	{"stash", `echo x >>a; echo new >new; git stash -u; git status --short; git stash list; git stash show -p; git stash apply; git stash drop; echo y >>b; git add b; git stash push -m staged -- b; git stash pop --index; git stash branch stashed 2>&1; git status --short`},
	{"bisect", commits + `git bisect start HEAD start; git bisect run sh -c '! test -e three'; git bisect log; git bisect reset`},
	{"cherry-pick", commits + `git checkout -q -b side start; git cherry-pick work~2 work~1; git cherry-pick -n work; git status --short; git cherry-pick -x work 2>&1; git reset -q --hard; git log --format='%H %B'; git checkout -q work; git branch -D side`},
	{"cherry-pick with a conflict", `echo 1 >a; git commit -qam 1; git checkout -q -b side start; echo 2 >a; git commit -qam 2; git cherry-pick work; git diff; git cherry-pick --abort; git status; git checkout -q work; git branch -D side`},
	{"revert", commits + `git revert --no-edit HEAD~1; git revert -n HEAD; git status --short; git revert --abort; git log --format=%s`},
	{"merge", commits + `git checkout -q -b side start; echo s >s; git add s; git commit -qm s; git merge --no-edit work; git log --graph --oneline; git checkout -q work; git merge --ff-only side; git merge side; git branch -d side`},
	{"merge with a conflict", `echo 1 >a; git commit -qam 1; git checkout -q -b side start; echo 2 >a; git rm -q b; git commit -qam 2; git merge work; git status; git ls-files -u; git checkout --ours a; git add a; git commit --no-edit; git checkout -q work; git branch -D side`},
	{"merge with rename, octopus and subtree", `git mv a renamed; git commit -qm mv; git checkout -q -b side start; echo more >>a; git commit -qam more; git merge -q --no-edit work; cat renamed; git branch p start; git branch q start; git merge -q -s ours --no-edit p q; git log --format='%H %P'; git checkout -q work; git branch -D side p q`},
	{"rerere", `git config rerere.enabled true; echo 1 >a; git commit -qam 1; git checkout -q -b side start; echo 2 >a; git commit -qam 2; git merge work; echo 3 >a; git commit -qam m; git reset -q --hard HEAD~1; git merge work; cat a; git reset -q --hard; git config --unset rerere.enabled; git checkout -q work; git branch -D side`},
	{"tags", `git tag light; git tag -a -m heavy heavy; git tag -a -f -m again light; git describe; git tag -n -l 'h*' 'l*'; git show heavy; git cat-file tag light; git tag -d light heavy`},
	{"worktrees", `git worktree add -q -b beside "$T/wt"; (cd "$T/wt"; echo x >x; git add x; git commit -m x; git log --oneline -1); git worktree list --porcelain | grep /wt; git worktree lock "$T/wt"; git worktree remove "$T/wt"; git worktree unlock "$T/wt"; git worktree move "$T/wt" "$T/wt2"; git worktree remove --force "$T/wt2"; git worktree prune -v; git branch -D beside`},
	{"submodules", `git init -q "$T/lib"; (cd "$T/lib"; git checkout -q -b main; echo l >l; git add l; git commit -qm lib); git -c protocol.file.allow=always submodule --quiet add "$T/lib" sub; git config -f .gitmodules submodule.sub.url ./lib; git add .gitmodules; git commit -qm sub; git submodule status; git submodule foreach -q 'git log --oneline'; (cd sub; echo m >>l; git commit -qam more); git diff --submodule; git status --short; git add sub; git commit -qm bump; git checkout -q HEAD~1; git -c protocol.file.allow=always submodule update; git submodule status; git checkout -q work; git submodule deinit -f sub; git rm -q sub; git commit -qm gone; rm -rf "$(git rev-parse --git-path modules/sub)"`},
	{"gc and repack", commits + `git repack -adq; git gc -q --prune=now; git pack-refs --all; git prune; git fsck --full --no-dangling; git rev-list --count HEAD; git commit-graph write --reachable; git commit-graph verify; git log --oneline`},
	{"clean", `mkdir -p d/e; echo x >d/e/x; echo o >o.o; git clean -n; git clean -nd; git clean -ndx; git clean -fdX; git clean -fd; ls -a`},
	{"sparse checkout", `git sparse-checkout set --cone dir; ls; git sparse-checkout list; echo x >>dir/c; git commit -qam x; git sparse-checkout add other; git sparse-checkout disable; ls; git config --unset core.sparseCheckout; git config --unset core.sparseCheckoutCone; true`},
	{"notes", `git notes add -m one; git notes append -m two; git log -1; git notes --ref=other add -m three; git notes list; git notes remove`},
	{"reflog", commits + `git reset -q --hard HEAD~2; git reflog -6; git reset -q --hard 'HEAD@{1}'; git log --oneline -2; git reflog expire --expire=now --all; git reflog`},
	{"reset and restore", `echo x >>a; echo y >>b; git add a; git reset -q a; git status --short; git restore a; git add b; git restore --staged b; git status --short; git checkout HEAD~1 -- a; git reset --soft HEAD~1; git status --short; git reset --merge; git reset --keep start; rm a; git restore .; ls`},
	{"hooks", `h=$(git rev-parse --git-path hooks); mkdir -p "$h"; printf '#!/bin/sh\necho "pre-commit $#"; ! git diff --cached | grep -q "^+bad"\n' >"$h/pre-commit"; printf '#!/bin/sh\necho "Signed: hook" >>"$1"\n' >"$h/commit-msg"; printf '#!/bin/sh\necho "prepare $2"\n' >"$h/prepare-commit-msg"; printf '#!/bin/sh\ncat; echo "$1"\n' >"$h/post-rewrite"; chmod +x "$h"/*; echo bad >>a; git commit -am no; git commit -q --no-verify -am forced; echo good >>a; git commit -am yes; git log --format='%H %B' -2; git commit -q --amend --no-edit; git checkout -q HEAD~1; rm "$h"/pre-commit "$h"/commit-msg "$h"/prepare-commit-msg "$h"/post-rewrite; git checkout -q work`},
	{"hooks in the tree", `git config core.hooksPath .husky; mkdir .husky; printf '#!/bin/sh\n. "$(dirname "$0")/_/common.sh"; run pre-commit\n' >.husky/pre-commit; mkdir .husky/_; echo 'run() { echo "husky $1 in $(git rev-parse --show-prefix)."; }' >.husky/_/common.sh; printf '#!/bin/sh\ncat >/dev/null; echo reference "$1" >>"$PWD/seen"\n' >.husky/post-merge; chmod +x .husky/*; git add .; (cd dir; git commit -m husky); git config --unset core.hooksPath`},
	{"patches", commits + `git format-patch -q -o "$T/p" start; ls "$T/p"; sed '/^-- $/,$d' "$T/p"/*.patch; git reset -q --hard start; git am "$T/p"/*.patch; git log --format='%H %s'; git reset -q --hard start; git apply --stat "$T/p"/0001*; git apply --index "$T/p"/0001*; git status --short; echo conflict >one; git add one; git commit -qm c; git am -3 "$T/p"/0001*; git am --abort; rm -r "$T/p"`},
	{"blame and grep", `echo second >>a; git commit -qam second; git blame a; git blame -L2,2 --porcelain a; git grep -n second; git grep -c a HEAD~1; git log -S second --format=%s; git log -L1,1:a --format=%s; git log --follow --format=%s -- a; git shortlog -s HEAD; git log --diff-filter=M --name-status --format=%h`},
	{"archive and bundle", `git archive HEAD | sha256sum; git archive --format=zip --prefix=p/ HEAD | wc -c; git bundle create -q "$T/b" HEAD work; git bundle list-heads "$T/b"; git clone -q "$T/b" "$T/c"; git -C "$T/c" log --oneline; rm -rf "$T/b" "$T/c"`},
	{"pointers of large files", `printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 5\n' 1 >big.bin; echo '*.bin -text' >.gitattributes; git add .; git commit -qm lfs; git show HEAD:big.bin; git check-attr -a big.bin`},
	{"moves and removals", `git mv a d; git mv dir there; git status --short; git commit -qm mv; git rm -q b; git rm -r -q there; git rm d && ls; git commit -qm rm; git log --stat -M --format=%H -2; git checkout -q start -- .`},
	{"ends of lines", `printf 'x\r\ny\r\n' >crlf; echo 'crlf text eol=crlf' >.gitattributes; printf '*.bin binary\n*.txt text=auto\n' >>.gitattributes; printf 'p\r\n' >p.txt; printf '\0\r\n' >b.bin; git add . ; git commit -qm eol; git ls-files --eol; git cat-file -p HEAD:crlf | od -c; rm crlf; git checkout crlf; od -c crlf; git diff --stat; git add --renormalize .; git status --short`},
	{"filters and attributes", `git config filter.up.clean 'tr a-z A-Z'; git config filter.up.smudge 'tr A-Z a-z'; echo '*.up filter=up ident' >.gitattributes; echo hello >x.up; git add .; git commit -qm f; git cat-file -p HEAD:x.up; rm x.up; git checkout x.up; cat x.up; git config diff.rev.textconv 'rev <'; git config --remove-section filter.up; git config --remove-section diff.rev`},
	{"links and modes", `ln -s a link; ln -s nowhere dangling; chmod +x a; git add .; git commit -m modes; git ls-tree -r HEAD; rm link; mkdir link; echo x >link/x; git status --short; git checkout -f -- .; ls -l link | cut -c1; git update-index --chmod=-x a; git diff --cached --summary; git commit -qm plain; test -x a; echo $?`},
	{"names", `n=$(printf 'tab\there'); echo 1 >"$n"; echo 2 >'sp ace'; echo 3 >ünïcödé; echo 4 >-dash; echo 5 >"$(printf 'new\nline')"; echo 6 >'qu"ote'; git add .; git commit -qm names; git ls-files; git -c core.quotePath=false ls-files; git status -z | od -c; git rm -q -- -dash; git mv 'sp ace' 日本; git status --short; git ls-files -z | tr '\0' '\n' | sort`},
	{"ignored files", `echo '*.log' >>.gitignore; echo '!keep.log' >>.gitignore; touch a.log keep.log; git status --short --ignored; git check-ignore -v a.log keep.log; git add -f a.log; git commit -qm f; git ls-files -ci --exclude-standard; echo secret >>"$(git rev-parse --git-path info/exclude)"; touch secret; git status --short; sed -i '$d' "$(git rev-parse --git-path info/exclude)"`},
	{"plumbing", `b=$(echo hi | git hash-object -w --stdin); t=$(printf '100644 blob %s\thi\n' $b | git mktree); c=$(git commit-tree -m plumbed -p HEAD $t); git update-ref refs/heads/plumbed $c; git cat-file -p $c; git ls-tree plumbed; git rev-parse plumbed^{tree} plumbed:hi; git read-tree -m HEAD plumbed; git write-tree; git symbolic-ref HEAD; git rev-list --objects plumbed | head -3; git merge-base plumbed work; git name-rev --tags HEAD; git for-each-ref --count=2 refs/tags; git reset -q; git branch -D plumbed; git update-index --refresh; git var GIT_COMMITTER_IDENT; git diff-tree -r HEAD~1 HEAD; git show-ref --tags -s`},
	{"ranges", commits + `git branch old HEAD; git rebase -q --force-rebase start; git range-diff start old work; git log --cherry-mark --oneline old...work; git rev-list --left-right --count old...work; git diff --stat start...; git log --first-parent --format=%s start..; git branch -D old`},
	{"clone, fetch and pull between directories", `git clone -q . "$T/peer"; (cd "$T/peer"; git checkout -q -B topic; echo p >p; git add p; git commit -qm peer); git remote add peer "$T/peer"; git fetch -q peer; git branch -r --list 'peer/t*'; git pull -q --no-rebase peer topic; git log --oneline -1; (cd "$T/peer"; git pull -q --rebase origin work; git push -q origin HEAD:refs/heads/pushed); git log --oneline -1 pushed; git remote remove peer; git branch -D pushed; rm -rf "$T/peer"`},
	{"fast-import, replace and filter-branch", commits + `git fast-export HEAD~1..HEAD | git fast-import --quiet --force; git replace HEAD~1 HEAD~2; git log --oneline; git replace -d "$(git rev-parse HEAD~1)" 2>/dev/null; git replace -l; FILTER_BRANCH_SQUELCH_WARNING=1 git filter-branch -f --msg-filter 'sed s/add/filtered/' start.. >/dev/null; git log --format='%H %s'; git update-ref -d refs/original/refs/heads/work`},
}

// runner runs all flows in the current directory, which is a checkout of the same commit
// inside and outside, and prints what they said and what became of the repository. Of paths,
// only those of the two places are different; and git says of a branch that is checked out
// where, which inside is the git directory.
func runner() string {
	var b strings.Builder
	b.WriteString(`umask 022; export LC_ALL=C GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=ada@example.com GIT_COMMITTER_NAME=Ada GIT_COMMITTER_EMAIL=ada@example.com
export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000' GIT_CONFIG_GLOBAL=/dev/null GIT_PAGER=cat GIT_EDITOR=true GIT_MERGE_AUTOEDIT=no TZ=UTC
TOP=$PWD; T=$(mktemp -d); G=$(git rev-parse --absolute-git-dir)
git config gc.auto 0; git config core.fsync none; git config advice.detachedHead false; git config core.abbrev 12
git tag -f start >/dev/null
state() {
	echo "-- refs"; git for-each-ref --format='%(objectname) %(refname)' refs/heads refs/tags refs/notes refs/stash refs/bisect refs/replace | grep -v 'refs/heads/coffer/\|refs/heads/main$\|refs/heads/work$'
	echo "-- head"; git symbolic-ref -q HEAD; git rev-parse HEAD HEAD^{tree}
	echo "-- index"; git ls-files -s -t; git status --porcelain=v2
	echo "-- files"; find . -path ./.git -prune -o -printf '%y %m %P %l\n' | sort
}
`)
	for _, f := range flows {
		b.WriteString("{ echo '== " + f.name + "'\ngit checkout -q -f -B work start; git reset -q --hard; git clean -q -ffdx; git stash clear\n( cd \"$TOP\"\n" + f.script + "\n); echo \"-- status $?\"; state; } 2>&1 </dev/null | sed \"s#$T#<temp>#g; s#$G#<git>#g; s#$TOP#<top>#g; s#/\\.coffer/git#<git>#g; s#checked out at .*#checked out#; s#in file .git/#in file <git>/#\"\n")
	}
	b.WriteString("git checkout -q -f -B work start; git commit -q --allow-empty -m end; git rev-parse HEAD; rm -rf \"$T\"\n")
	return b.String()
}

// settled and begin are the user's settings, and his repository.
const (
	settled = "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n"
	begin   = `export GIT_AUTHOR_DATE='1600000000 +0000' GIT_COMMITTER_DATE='1600000000 +0000'; git init -q . && mkdir dir other && printf '1\n2\n3\n' >a && echo b >b && echo c >dir/c && echo d >other/d && printf '#!/bin/sh\n' >run.sh && chmod +x run.sh && echo '*.o' >.gitignore && git add -A && git commit -qm first && echo more >>a && git commit -qam second && git tag v1`
)

// TestFlows does the same things in a sandbox and in a plain clone: what git says, and every
// commit, tree, index and file, must be the same. In a directory of the user's, nothing of it
// may be in the user's own git directory afterwards.
func TestFlows(t *testing.T) {
	testbed.Binary(t)
	// Who does it outside makes no difference, so it is done once.
	outside := sync.OnceValue(func() string {
		b := testbed.New(t, os.Getuid())
		put(t, b, filepath.Join(b.Home, ".gitconfig"), settled, 0o644)
		sh(t, b, b.Work, begin+` && git clone -q . ../clone`)
		c := b.Program("bash", "-c", runner())
		c.Dir = filepath.Join(b.Dir, "clone")
		out, _ := c.CombinedOutput()
		return string(out)
	})
	go outside()
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		put(t, b, filepath.Join(b.Home, ".gitconfig"), settled, 0o644)
		sh(t, b, b.Work, begin+` && git clone -q . ../mine && cd ../mine && echo mine >>b && git stash -q && git ls-files -s >../index`)
		for mode, dir := range map[string]string{"worktree": b.Work, "direct": filepath.Join(b.Dir, "mine")} {
			inside := coffer(t, b, dir, "exec", "--create", "--workspace", mode, "--name", mode, "--net", "none", "--", "bash", "-c", runner())
			sameFlows(t, mode, parts(inside), parts(outside()))
			// And what was done inside has come out.
			end := strings.TrimSpace(inside[strings.LastIndexByte(strings.TrimSpace(inside), '\n')+1:])
			sh(t, b, dir, `test "$(git rev-parse coffer/`+mode+`@work)" = `+end+` && git fsck && test "$(git rev-parse HEAD)" = "$(git rev-parse main)"`)
		}
		sh(t, b, b.Work, `test -z "$(git status --short)"`)
		sh(t, b, filepath.Join(b.Dir, "mine"), `git ls-files -s | cmp - ../index && git stash list | grep -q 'stash@{0}' && test "$(git for-each-ref --format='%(refname)' refs/heads refs/tags | grep -v refs/heads/coffer/)" = "$(printf 'refs/heads/main\nrefs/tags/v1')"`)
	})
}

// sameFlows compares what each said.
func sameFlows(t *testing.T, mode string, got, want []string) {
	t.Helper()
	if len(want) != len(flows)+1 {
		t.Fatalf("outside, %d of %d were done", len(want)-1, len(flows))
	}
	for i, w := range want {
		name, _, _ := strings.Cut(w, "\n")
		if i >= len(got) {
			t.Errorf("%s: %s: not done inside", mode, name)
		} else if g := got[i]; g != w {
			t.Errorf("%s: %s: is different inside: %s", mode, name, firstDifference(g, w))
		}
	}
}

// parts are what each flow said.
func parts(out string) []string { return strings.Split("\n"+out, "\n== ") }

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "got " + g[i] + ", want " + w[i]
		}
	}
	return "one says more: " + strings.Join(append(g[min(len(g), len(w)):], w[min(len(g), len(w)):]...), "|")
}

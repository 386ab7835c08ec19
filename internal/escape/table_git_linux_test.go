package escape

// gitHoles are the ways by which git can be told to run something, as far as a program
// could take them in a worktree: settings, attributes, submodules, names. The controls are
// made in an ordinary worktree, whose settings are the repository's own.
var gitHoles = []hole{
	{"32", "core.fsmonitor in the settings", evilProgram + `git config core.fsmonitor "$EVIL"; git config --worktree core.fsmonitor "$EVIL"; true`,
		looksAround, `test -e "$MARK"`},
	{"33", "a filter in the settings", evilProgram + `git config filter.evil.clean "$EVIL"; git config filter.evil.smudge "$EVIL"; git config filter.evil.process "$EVIL"; echo '* filter=evil' >.gitattributes; echo x >>file`,
		looksAround + `; git add -A; git checkout -q -- file`, `test -e "$MARK"`},
	{"34", "diff.external in the settings", evilProgram + `git config diff.external "$EVIL"; echo x >>file`,
		looksAround + `; git diff HEAD`, `test -e "$MARK"`},
	{"34.conv", "a text converter in the settings", evilProgram + `git config diff.evil.textconv "$EVIL"; echo '* diff=evil' >.gitattributes; echo x >>file; git commit -qam x; echo y >>file`,
		looksAround + `; git log -p; git blame file`, `test -e "$MARK"`},
	{"34.mrg", "a merge driver in the settings", evilProgram + `git config merge.evil.driver "$EVIL"; echo '* merge=evil' >.gitattributes; echo a >file; git add .gitattributes file; git commit -qm a`,
		`theirs=$(git rev-parse HEAD); git checkout -q -b side HEAD~1; echo b >file; echo '* merge=evil' >.gitattributes; git add .gitattributes file; git commit -qm b; git merge -q "$theirs"`, `test -e "$MARK"`},
	{"37.sub", "hooks of a submodule's git directory", `git init -q far; git -C far commit -q --allow-empty -m x; git -c protocol.file.allow=always submodule --quiet add "$PWD/far" sub; git commit -qm sub; ` + evilProgram +
		`h=$(cd sub && git rev-parse --absolute-git-dir)/hooks; mkdir -p "$h"; cp evil "$h/post-commit"`,
		`git -C sub commit -q --allow-empty -m mine`, `test -e "$MARK"`},
	{"39", "a command for git submodule update", evilProgram + `git init -q sub; git -C sub commit -q --allow-empty -m x; git config submodule.sub.update "!$EVIL"; git config submodule.sub.url ./sub; git config submodule.sub.active true; printf '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n' >.gitmodules; git add sub .gitmodules; git commit -qm planted; git -C sub commit -q --allow-empty -m y`,
		looksAround + `; git submodule update; git submodule status`, `test -e "$MARK"`},
	{"40.inc", "a file that the settings include", evilProgram + `printf '[core]\n\tfsmonitor = %s\n' "$EVIL" >inc; git config include.path "$PWD/inc"`,
		looksAround, `test -e "$MARK"`},
	{"40.ssh", "core.sshCommand", evilProgram + `git config core.sshCommand "$EVIL"`,
		`git ls-remote ssh://localhost:1/x`, `test -e "$MARK"`},
	{"40.cred", "credential.helper", evilProgram + `git config credential.helper "!$EVIL"`,
		`printf 'protocol=https\nhost=localhost\n\n' | GIT_TERMINAL_PROMPT=0 git credential fill`, `test -e "$MARK"`},
	{"40.gpg", "gpg.program", evilProgram + `git config gpg.program "$EVIL"; git config commit.gpgSign true`,
		`git commit -q --allow-empty -m mine`, `test -e "$MARK"`},
	{"40.page", "a pager, an editor and an alias", evilProgram + `git config core.pager "$EVIL"; git config pager.log true; git config core.editor "$EVIL"; git config alias.st "!$EVIL"`,
		`export PAGER=cat EDITOR=true; git -p log; git commit --allow-empty; git st`, `test -e "$MARK"`},
	{"40.pull", "a program for the other end", evilProgram + `git config remote.origin.uploadpack "$EVIL"; git config remote.origin.receivepack "$EVIL"`,
		`git fetch -q; git push -q origin HEAD:refs/heads/new`, `test -e "$MARK"`},
	{"41", "a branch whose name is an option", `git update-ref "refs/heads/--output=$MARK" HEAD; true`,
		`git -C "$R" for-each-ref --format='%(refname:short)' refs/heads | while read -r b; do git -C "$R" log -1 $b; done`, `test -e "$MARK"`},
	{"41.up", "a branch whose name leaves its directory", `g=$(git rev-parse --git-common-dir); git rev-parse HEAD >"$g/refs/heads/../evil"; mkdir -p "$g/refs/heads/x"; cp "$g/refs/evil" "$g/refs/heads/x/..lock" 2>/dev/null; true`,
		`true`, `test -e "$R/.git/refs/evil"`},
	{"41.link", "a ref that is a link to a file of the host", `g=$(git rev-parse --git-common-dir); mkdir -p "$g/refs/heads"; ln -s "$SECRET" "$g/refs/heads/leak"; git for-each-ref 2>/dev/null; cat "$g/refs/heads/leak" >stolen 2>/dev/null; true`,
		`cat "$R/.git/refs/heads/leak" >>stolen 2>/dev/null`, `grep -q canary stolen`},
}

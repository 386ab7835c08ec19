package changes

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/cofferhq/coffer/internal/mask"
	"github.com/cofferhq/coffer/internal/ui"
)

// oddNames looks at the path itself, and at where a link leads.
func oddNames(l *look) {
	for _, r := range l.Path {
		if r != ' ' && !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			l.find(High, "name", 0, "its name has characters that do not show")
			break
		}
	}
	if l.New.Mode == 0o120000 {
		if note := LinkNote(l.Path, string(l.New.Text)); note != "" {
			l.find(High, "link", 0, clip(note))
		}
	}
}

// formats of programs, by how they begin.
var formats = []struct{ magic, name string }{
	{"\x7fELF", "a Linux program"}, {"MZ", "a Windows program"}, {"\xfe\xed\xfa\xce", "a macOS program"}, {"\xfe\xed\xfa\xcf", "a macOS program"},
	{"\xce\xfa\xed\xfe", "a macOS program"}, {"\xcf\xfa\xed\xfe", "a macOS program"}, {"\xca\xfe\xba\xbe", "a program of Java or macOS"}, {"\x00asm", "a WebAssembly program"},
}

// programs looks at what can be run, and at what cannot be read.
func programs(l *look) {
	switch {
	case l.New.Mode == 0o120000 || l.New.Mode == 0o160000:
		return
	case l.New.Unread:
		l.find(Medium, "unreadable", 0, "cannot be read, or a program holds a lease on it, so it was not looked at")
	case l.New.Huge:
		l.find(Medium, "large", 0, fmt.Sprintf("%d bytes, too large to be looked at", l.New.Size))
	case IsBinary(l.New.Text):
		for _, f := range formats {
			if bytes.HasPrefix(l.New.Text, []byte(f.magic)) {
				l.find(High, "program", 0, "is "+f.name)
				return
			}
		}
		l.find(Low, "binary", 0, fmt.Sprintf("a binary file of %d bytes", l.New.Size))
	}
	if l.New.Mode&0o111 != 0 && l.Old.Mode&0o111 == 0 {
		what := "can be executed, and could not before"
		if l.Old.Mode == 0 {
			what = "a new executable"
		}
		l.find(Medium, "executable", 0, what)
	}
}

// A riskyPlace is where a file does something because it is there.
type riskyPlace struct {
	match string // a name, a pattern of one, or a directory with a slash at its end
	level Level
	rule  string
	what  string
}

const (
	editorRuns = "an editor acts on it when the folder is opened"
	shellRuns  = "a shell acts on it when you change to the directory"
	nextAgent  = "the next agent, or yours, takes it as instruction"
	agentRuns  = "an agent runs what it names, or takes it as instruction"
	ciRuns     = "runs with your CI's credentials after a push"
	buildRuns  = "runs when you build or test"
	gitRuns    = "git runs it, once hooks are installed or if core.hooksPath says so"
)

// settingRuns is what becomes of settings.
var settingRuns = map[mask.Kind]string{mask.Editor: editorRuns, mask.Agent: agentRuns, mask.Hook: gitRuns, mask.Shell: shellRuns}

var riskyPlaces = []riskyPlace{
	{".vimrc", High, "editor", editorRuns},
	{"mise.toml", High, "shell", shellRuns}, {".mise.toml", High, "shell", shellRuns}, {".mise/", High, "shell", shellRuns}, {".tool-versions", Low, "shell", shellRuns},
	{"CLAUDE.md", Medium, "agent", nextAgent}, {"CLAUDE.local.md", Medium, "agent", nextAgent}, {"AGENTS.md", Medium, "agent", nextAgent}, {"GEMINI.md", Medium, "agent", nextAgent},
	{".cursorrules", Medium, "agent", nextAgent},
	{".aider*", Medium, "agent", agentRuns}, {".windsurfrules", Medium, "agent", nextAgent}, {".clinerules", Medium, "agent", nextAgent}, {"copilot-instructions.md", Medium, "agent", nextAgent},
	{"coffer.toml", High, "coffer", "says what the next sandbox may do; see 'coffer trust'"}, {"coffer.local.toml", High, "coffer", "says what the next sandbox may do; see 'coffer trust'"},
	{".github/workflows/", Medium, "ci", ciRuns}, {".github/actions/", Medium, "ci", ciRuns}, {".gitlab-ci.yml", Medium, "ci", ciRuns}, {".circleci/", Medium, "ci", ciRuns}, {".buildkite/", Medium, "ci", ciRuns}, {".woodpecker/", Medium, "ci", ciRuns}, {".forgejo/", Medium, "ci", ciRuns}, {".gitea/", Medium, "ci", ciRuns},
	{"Jenkinsfile", Medium, "ci", ciRuns}, {"azure-pipelines.yml", Medium, "ci", ciRuns}, {".travis.yml", Medium, "ci", ciRuns}, {".drone.yml", Medium, "ci", ciRuns}, {"bitbucket-pipelines.yml", Medium, "ci", ciRuns}, {".woodpecker.yml", Medium, "ci", ciRuns}, {"CODEOWNERS", Medium, "ci", "says who must agree to changes"},
	{"Makefile", Low, "build", buildRuns}, {"GNUmakefile", Low, "build", buildRuns}, {"makefile", Low, "build", buildRuns}, {"CMakeLists.txt", Low, "build", buildRuns}, {"justfile", Low, "build", buildRuns}, {"Justfile", Low, "build", buildRuns}, {"Taskfile.yml", Low, "build", buildRuns}, {"Rakefile", Low, "build", buildRuns}, {"Gemfile", Low, "build", buildRuns},
	{"build.rs", Medium, "build", buildRuns}, {"setup.py", Medium, "build", "runs when the package is installed"}, {"conftest.py", Low, "build", buildRuns}, {"sitecustomize.py", High, "build", "Python runs it at every start"}, {"usercustomize.py", High, "build", "Python runs it at every start"}, {"*.pth", High, "build", "Python may run it at every start"},
	{"build.gradle", Low, "build", buildRuns}, {"build.gradle.kts", Low, "build", buildRuns}, {"pom.xml", Low, "build", buildRuns}, {"Dockerfile", Low, "build", buildRuns}, {"docker-compose.yml", Low, "build", buildRuns}, {"compose.yaml", Low, "build", buildRuns}, {"Vagrantfile", Medium, "build", buildRuns}, {"binding.gyp", High, "build", "npm runs it when the package is installed"},
	{".npmrc", High, "source", "says where packages come from"}, {".yarnrc", High, "source", "says where packages come from"}, {".yarnrc.yml", High, "source", "says where packages come from, and which yarn is run"}, {".pnpmfile.cjs", High, "source", "pnpm runs it when it installs"}, {"bunfig.toml", High, "source", "says where packages come from"}, {"pip.conf", High, "source", "says where packages come from"}, {".cargo/", High, "source", "says how cargo builds, and where packages come from"}, {".pypirc", High, "source", "says where packages go"}, {"nuget.config", High, "source", "says where packages come from"},
	{".lfsconfig", High, "git", "says where large files come from"}, {".gitconfig", Medium, "git", "a config of git's, if something includes it"},
}

// gitHooks are the names by which git calls programs.
var gitHooks = []string{
	"applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-rebase",
	"post-checkout", "post-merge", "pre-push", "pre-receive", "update", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc",
	"post-rewrite", "sendemail-validate", "fsmonitor-watchman", "post-index-change",
}

// places looks at where the file is.
func places(l *look) {
	lower := strings.ToLower("/" + l.Path)
	base := strings.ToLower(path.Base(l.Path))
	for name := range strings.SplitSeq(l.Path, "/") {
		if kind := mask.SettingOf(name); kind != "" {
			l.find(High, string(kind), 0, settingRuns[kind])
			return
		}
	}
	for _, p := range riskyPlaces {
		if p.holds(lower, base) {
			l.find(p.level, p.rule, 0, p.what)
			return
		}
	}
	if slices.Contains(gitHooks, base) && strings.Contains(strings.ToLower(path.Dir(l.Path)), "hook") {
		l.find(High, "hook", 0, gitRuns)
	}
}

// holds says whether a path, in lower case for the systems that do not tell the cases
// apart, is this place.
func (p riskyPlace) holds(lower, base string) bool {
	match := strings.ToLower(p.match)
	switch {
	case strings.HasSuffix(match, "/"):
		return strings.Contains(lower, "/"+match)
	case strings.Contains(match, "/"):
		return strings.HasSuffix(lower, "/"+match)
	case strings.Contains(match, "*"):
		ok, _ := path.Match(match, base)
		return ok
	}
	return base == match
}

// clip bounds what is quoted of a file.
func clip(s string) string { return ui.Clip(strings.TrimSpace(s), maxText) }

// bulk are directories full of other people's files, in which a place means nothing.
var bulk = []string{"node_modules", "vendor", "venv", ".venv", "target", "dist", "build", "site-packages", ".tox", ".cache"}

// ReviewIgnored looks at a file that git ignores, by its name only. It will not be merged, but an
// editor that opens the folder finds it.
func ReviewIgnored(p string, mode uint32) []Finding {
	dirs := strings.Split(p, "/")
	if len(dirs) > 3 || slices.ContainsFunc(dirs[:len(dirs)-1], func(d string) bool { return slices.Contains(bulk, d) }) {
		return nil
	}
	l := &look{File: File{Path: p, New: Side{Mode: mode}}}
	places(l)
	l.found = slices.DeleteFunc(l.found, func(f Finding) bool { return f.Level != High })
	for i := range l.found {
		l.found[i].What += " (git ignores it)"
	}
	return l.found
}

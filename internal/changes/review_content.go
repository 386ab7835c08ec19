package changes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// lines are those that were added.
func (l *look) lines() []line {
	if l.split {
		return l.added
	}
	l.split = true
	if l.New.Huge || l.New.Mode == 0o120000 || IsBinary(l.New.Text) {
		return nil
	}
	old := l.Old.Text
	if l.Old.Huge || IsBinary(old) {
		old = nil
	}
	n := 0
	for text := range bytes.Lines(Hunks(old, l.New.Text)) {
		switch text[0] {
		case '@':
			var a, b int
			if _, err := fmt.Sscanf(string(text[:min(len(text), 100)]), "@@ -%d,%d +%d", &a, &b, &n); err != nil {
				fmt.Sscanf(string(text[:min(len(text), 100)]), "@@ -%d +%d", &a, &n)
			}
		case '+':
			l.added = append(l.added, line{n, string(bytes.TrimSuffix(text[1:], []byte("\n")))})
			n++
		case ' ':
			n++
		}
	}
	return l.added
}

// onInstall are the scripts that npm and its like run without being asked.
var onInstall = []string{"preinstall", "install", "postinstall", "prepare", "preprepare", "postprepare", "prepublish", "dependencies"}

// manifests looks at the scripts of a package.json.
func manifests(l *look) {
	name := strings.ToLower(path.Base(l.Path))
	if name != "package.json" && name != "composer.json" && name != "deno.json" {
		return
	}
	was, is := scripts(l.Old.Text), scripts(l.New.Text)
	for _, key := range slices.Sorted(maps.Keys(is)) {
		if old, ok := was[key]; ok && old == is[key] {
			continue
		}
		level, when := Medium, "a script"
		if slices.Contains(onInstall, key) || strings.HasPrefix(key, "post-") || strings.HasPrefix(key, "pre-") {
			level, when = High, "a script that runs when packages are installed"
		}
		l.find(level, "script", 0, fmt.Sprintf("%s: %s = %s", when, clip(key), clip(is[key])))
	}
}

// scripts reads the scripts, or tasks, of a manifest.
func scripts(text []byte) map[string]string {
	var m struct {
		Scripts map[string]json.RawMessage `json:"scripts"`
		Tasks   map[string]json.RawMessage `json:"tasks"`
	}
	if json.Unmarshal(text, &m) != nil {
		return nil
	}
	all := map[string]string{}
	for _, part := range []map[string]json.RawMessage{m.Scripts, m.Tasks} {
		for k, v := range part {
			var s string
			if json.Unmarshal(v, &s) != nil {
				s = string(v)
			}
			all[k] = s
		}
	}
	return all
}

// submodules looks at other repositories that are to be fetched.
func submodules(l *look) {
	if l.New.Mode == 0o160000 {
		l.find(Medium, "submodule", 0, "another commit of a submodule: "+clip(strings.TrimPrefix(string(l.New.Text), "Subproject commit ")))
	}
	if strings.ToLower(path.Base(l.Path)) != ".gitmodules" {
		return
	}
	for _, a := range l.lines() {
		key, value, ok := strings.Cut(a.text, "=")
		if key = strings.ToLower(strings.TrimSpace(key)); ok && (key == "url" || key == "update" || key == "path") {
			l.find(High, "submodule", a.n, fmt.Sprintf("a submodule's %s: %s", key, clip(value)))
		}
	}
}

// attributes looks at what git is told to do with files.
func attributes(l *look) {
	if strings.ToLower(path.Base(l.Path)) != ".gitattributes" {
		return
	}
	for _, a := range l.lines() {
		for _, word := range strings.Fields(a.text) {
			name, _, _ := strings.Cut(strings.TrimLeft(word, "-!"), "=")
			if name == "filter" || name == "diff" || name == "merge" || name == "linguist-generated" {
				l.find(Medium, "attributes", a.n, "git handles files differently: "+clip(a.text))
				break
			}
		}
	}
}

// locks are the files that say from where packages are downloaded.
var locks = []string{
	"package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "deno.lock", "cargo.lock", "poetry.lock", "uv.lock", "pdm.lock", "pipfile", "pipfile.lock",
	"composer.lock", "gemfile", "gemfile.lock", "go.mod", "flake.lock", "flake.nix", "mix.lock", "pubspec.lock", "packages.lock.json", "package.json", "pyproject.toml", "cargo.toml", "build.gradle",
	"build.gradle.kts", "settings.gradle", "settings.gradle.kts", "pom.xml", ".npmrc", ".yarnrc", ".yarnrc.yml", "pip.conf", "config.toml", "nuget.config", "bunfig.toml", ".terraform.lock.hcl",
}

// lazily compiles an expression when it is first used, which in most commands is never.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

var address = lazily(`(?i)\b(?:https?|git|ssh|git\+https|git\+ssh|ftp)://(?:[^/\s"'@<>]*@)?([a-z0-9.-]+)`)

// maxHosts bounds how many are collected of one file.
const maxHosts = 1000

// downloads looks for hosts that a file with downloads did not name before.
func downloads(l *look) {
	name := strings.ToLower(path.Base(l.Path))
	if !slices.Contains(locks, name) && !(strings.HasPrefix(name, "requirements") && strings.HasSuffix(name, ".txt")) {
		return
	}
	was := hosts(l.Old.Text)
	var fresh []string
	for h := range hosts(l.New.Text) {
		if !was[h] {
			fresh = append(fresh, h)
		}
	}
	if len(fresh) == 0 {
		return
	}
	slices.Sort(fresh)
	level, what := High, "names hosts that it did not name before: "
	if l.Old.Mode == 0 {
		level, what = Medium, "a new file that names the hosts: "
	}
	l.find(level, "hosts", 0, what+clip(strings.Join(fresh, ", ")))
}

func hosts(text []byte) map[string]bool {
	all := map[string]bool{}
	for _, m := range address().FindAllSubmatch(text, -1) {
		if len(all) >= maxHosts {
			break
		}
		all[strings.ToLower(string(m[1]))] = true
	}
	return all
}

// unseen looks for characters that make text look like something else.
func unseen(l *look) {
	turned, unseen, control := 0, 0, 0
	for _, a := range l.lines() {
		for i, r := range a.text {
			switch {
			case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200e, r == 0x200f, r == 0x061c:
				if turned++; turned == 1 {
					l.find(High, "hidden", a.n, "characters that turn the direction of the text, so that it reads differently from what runs")
				}
			case r == 0xfeff && (i > 0 || a.n > 1), r == 0x200b, r == 0x2060, r == 0x180e, r >= 0xe0000 && r <= 0xe007f, r == 0x3164, r == 0x115f, r == 0x1160, r == 0xffa0:
				if unseen++; unseen == 1 {
					l.find(High, "hidden", a.n, "characters that do not show")
				}
			case r == 0x1b, r == 0x08, r == 0x9b:
				if control++; control == 1 {
					l.find(Medium, "hidden", a.n, "control characters, which a terminal obeys")
				}
			}
		}
	}
}

// patterns of secrets that can be told from other text.
var patterns = []struct {
	name string
	re   func() *regexp.Regexp
}{
	{"a private key", lazily(`-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----`)},
	{"an AWS access key", lazily(`\b(?:AKIA|ASIA)[A-Z2-7]{16}\b`)},
	{"a GitHub token", lazily(`\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})`)},
	{"a GitLab token", lazily(`\bglpat-[A-Za-z0-9_-]{20,}`)},
	{"a Slack token", lazily(`\bxox[abeprs]-[A-Za-z0-9-]{10,}`)},
	{"a Google API key", lazily(`\bAIza[A-Za-z0-9_-]{35}`)},
	{"an Anthropic key", lazily(`\bsk-ant-[A-Za-z0-9_-]{20,}`)},
	{"an OpenAI key", lazily(`\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{32,}`)},
	{"a Stripe key", lazily(`\b[rs]k_live_[A-Za-z0-9]{16,}`)},
	{"an npm token", lazily(`\bnpm_[A-Za-z0-9]{36}`)},
	{"a PyPI token", lazily(`\bpypi-[A-Za-z0-9_-]{50,}`)},
	{"a Hugging Face token", lazily(`\bhf_[A-Za-z0-9]{30,}`)},
	{"a JSON web token", lazily(`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`)},
	{"a password in an address", lazily(`[a-z][a-z0-9+.-]*://[^/\s:@"']{1,64}:[^/\s:@"'${}<>]{6,64}@[a-z0-9.-]+`)},
}

// secrets looks for keys and tokens. They are not shown.
func secrets(l *look) {
	said := map[string]bool{}
	for _, a := range l.lines() {
		text := a.text[:min(len(a.text), 64<<10)]
		for _, p := range patterns {
			if !said[p.name] && p.re().MatchString(text) {
				said[p.name] = true
				l.find(High, "secret", a.n, "looks like "+p.name)
			}
		}
	}
}

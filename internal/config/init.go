package config

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// A Finding is something in a repository that says what its sandboxes need.
type Finding struct {
	Preset string // "" if there is none for it
	Why    string // the file that gave it away
}

// signs are files that give a language away. The first that is found speaks for its
// preset.
var signs = []struct{ preset, names string }{
	{"node", "package.json package-lock.json yarn.lock pnpm-lock.yaml bun.lockb bun.lock npm-shrinkwrap.json deno.json deno.jsonc deno.lock"},
	{"go", "go.mod go.work go.sum"},
	{"python", "pyproject.toml requirements.txt setup.py setup.cfg Pipfile Pipfile.lock poetry.lock pdm.lock uv.lock environment.yml environment.yaml pixi.lock tox.ini"},
	{"rust", "Cargo.toml Cargo.lock rust-toolchain.toml"},
	{"java", "pom.xml build.gradle build.gradle.kts settings.gradle settings.gradle.kts gradle.lockfile gradlew mvnw"},
	{"ruby", "Gemfile Gemfile.lock *.gemspec"},
	{"php", "composer.json composer.lock"},
	{"dotnet", "*.sln *.slnx *.csproj *.fsproj packages.lock.json global.json"},
	{"elixir", "mix.exs mix.lock rebar.config rebar.lock"},
	{"haskell", "stack.yaml stack.yaml.lock cabal.project *.cabal"},
	{"perl", "cpanfile Makefile.PL dist.ini"},
	{"r", "DESCRIPTION renv.lock"},
	{"julia", "Project.toml Manifest.toml"},
	{"dart", "pubspec.yaml pubspec.lock"},
	{"nix", "flake.nix flake.lock shell.nix default.nix"},
	{"playwright", "playwright.config.ts playwright.config.js playwright.config.mjs"},
	{"claude-code", ".claude CLAUDE.md"},
	{"codex", ".codex"},
	{"gemini", ".gemini GEMINI.md"},
	{"opencode", "opencode.json opencode.jsonc .opencode"},
	{"pi", ".pi"},
}

// others are worth a remark: what they ask for is not a preset's business.
var others = []struct{ remark, names string }{
	{"services of a compose file run on this machine; to let programs reach one as host.coffer.internal, list its port", "compose.yaml compose.yml docker-compose.yaml docker-compose.yml"},
	{"a dev container's image, ports, variables, mounts and postCreateCommand are taken over by 'coffer init --devcontainer'", ".devcontainer .devcontainer.json"},
}

// maxEntries bounds how much of a repository is looked at.
const maxEntries = 10000

// Look finds out what a repository is made of, from the names of files at its root and
// one level below.
func Look(root string) (found []Finding, remarks []string, err error) {
	names, err := namesIn(root)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range signs {
		if why := firstOf(s.names, names); why != "" {
			found = append(found, Finding{s.preset, why})
		}
	}
	for _, o := range others {
		why := firstOf(o.names, names)
		if why == "" {
			continue
		}
		remarks = append(remarks, why+": "+o.remark)
	}
	return found, remarks, nil
}

// namesIn lists the files of a directory and of those in it, outer ones first.
func namesIn(dir string) ([]string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	top, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var names, below []string
	for _, e := range top {
		names = append(names, e.Name())
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") || slices.Contains([]string{"node_modules", "vendor", "target"}, e.Name()) || len(below) > maxEntries {
			continue
		}
		list, _ := fs.ReadDir(root.FS(), e.Name()) // one that cannot be read shows nothing
		for _, b := range list {
			below = append(below, filepath.Join(e.Name(), b.Name()))
		}
	}
	return append(names, below...), nil
}

// firstOf returns the first of the names that matches one of the patterns.
func firstOf(patterns string, names []string) string {
	for _, name := range names {
		for p := range strings.FieldsSeq(patterns) {
			if ok, _ := filepath.Match(p, filepath.Base(name)); ok {
				return name
			}
		}
	}
	return ""
}

// Starter is a config file to start from, with what a dev container asks for if that is
// wanted, see [DevContainer].
func Starter(found []Finding, caches, remarks []string, dev string) string {
	var b strings.Builder
	b.WriteString("# How coffer makes sandboxes for this repository. 'coffer config schema'\n# describes every key, 'coffer config check' finds mistakes.\n\n")
	if len(found) > 0 {
		var names []string
		for _, f := range found {
			fmt.Fprintf(&b, "# %s: there is %s\n", f.Preset, printable(f.Why))
			names = append(names, tomlString(f.Preset))
		}
		fmt.Fprintf(&b, "presets = [%s]\n", strings.Join(names, ", "))
	} else {
		b.WriteString("# See 'coffer presets'.\n# presets = [\"node\", \"claude-code\"]\n")
	}
	if len(caches) > 0 {
		names := make([]string, len(caches))
		for i, name := range caches {
			names[i] = tomlString(name)
		}
		fmt.Fprintf(&b, "\n# Your package caches that programs find filled. What they add stays in the sandbox.\ncaches = [%s]\n", strings.Join(names, ", "))
	}
	b.WriteString(dev)
	for line := range strings.Lines(starter) {
		// After dotted keys there cannot be tables of the same name.
		if dev != "" && line != "\n" && !strings.HasPrefix(line, "#") {
			line = "# " + line
		}
		b.WriteString(line)
	}
	for _, r := range remarks {
		if dev != "" && strings.Contains(r, ".devcontainer") {
			continue // that was done
		}
		fmt.Fprintf(&b, "\n# %s\n", printable(r))
	}
	return b.String()
}

const starter = `
[workspace]
# worktree: on a branch of its own; direct: what programs write lands; cow: changes wait
# for 'coffer apply'; none; auto: a worktree for what stays, in a git repository.
# mode = "auto"

# Runs once in each new sandbox that stays; so does .coffer/setup.sh.
# [setup]
# commands = ["npm ci"]

[limits]
# memory = "4g"
# cpus = 2.0
# pids = 2000
# timeout = "2h"

[network]
# standard: what development needs; none: only what presets, groups and rules name; ask:
# you, for the rest; open: anything public.
# mode = "standard"
# host_ports = [5432]        # of this machine; needs your yes

# [[network.rules]]
# name = "our API"
# allow = ["api.example.com:443"]

# [env]
# pass = ["MY_TOKEN"]        # yours, if it is set; needs your yes
# set = { LOG_LEVEL = "${LOG_LEVEL:-info}" }

# [mounts.datasets]
# source = "~/datasets"      # needs your yes
# target = "/data"
`

// Create writes a file at the root of a repository. One that is there is left alone unless it is
// to be replaced; a link is never followed.
func Create(root, name, text string, replace bool) error {
	file := filepath.Join(root, name)
	if _, err := os.Lstat(file); err == nil && !replace {
		return &fs.PathError{Op: "create", Path: file, Err: fs.ErrExist}
	}
	return safepath.File{Path: file, Mode: 0o644, Synced: true}.Write([]byte(text))
}

// Exclude keeps git from tracking coffer.local.toml, by a line in info/exclude of the
// repository's git directory. A .git that does not lead to its own is an error.
func Exclude(dir string) (added bool, err error) {
	at, err := rootfs.FindRepository(dir)
	switch {
	case err != nil || at.Common == "" && exists(filepath.Join(dir, ".git")):
		return false, ui.Error(fmt.Sprintf("%s/.git does not lead to a git directory of its own", dir), fmt.Sprintf("add %s to what git ignores yourself", LocalName))
	case at.Common == "":
		return false, nil
	}
	git, err := os.OpenRoot(at.Common)
	if err != nil {
		return false, err
	}
	defer git.Close()
	if err := git.MkdirAll("info", 0o755); err != nil {
		return false, err
	}
	f, err := git.OpenFile("info/exclude", os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return false, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1<<20))
	line := "/" + LocalName + "\n"
	if err != nil || strings.Contains("\n"+string(data), "\n"+line) {
		return false, err
	}
	if len(data) > 0 && !strings.HasSuffix(string(data), "\n") {
		line = "\n" + line
	}
	_, err = f.WriteString(line)
	return err == nil, err
}

package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
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
		remark := why + ": " + o.remark
		if ports := composePorts(root, why); len(ports) > 0 {
			remark += ", such as network.host_ports = " + strings.ReplaceAll(fmt.Sprint(ports), " ", ", ")
		}
		remarks = append(remarks, remark)
	}
	return found, remarks, nil
}

// namesIn lists the files of a directory and of those in it, outer ones first.
func namesIn(root string) ([]string, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	list := func(dir string) (names []string, dirs []string, err error) {
		f, err := r.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		entries, err := f.ReadDir(maxEntries)
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			names = append(names, name)
			if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains([]string{"node_modules", "vendor", "target"}, e.Name()) {
				dirs = append(dirs, name)
			}
		}
		sort.Strings(names)
		sort.Strings(dirs)
		if errors.Is(err, io.EOF) {
			err = nil // it is empty
		}
		return names, dirs, err
	}
	names, dirs, err := list(".")
	if err != nil {
		return nil, err
	}
	for _, d := range dirs {
		if len(names) > maxEntries {
			break
		}
		below, _, err := list(d)
		if err == nil { // what cannot be read gives nothing away
			names = append(names, below...)
		}
	}
	return names, nil
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
			fmt.Fprintf(&b, "# %s: there is %s\n", f.Preset, comment(f.Why))
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
		fmt.Fprintf(&b, "\n# %s\n", comment(r))
	}
	return b.String()
}

// comment is text for a comment: the names of files are the repository's.
func comment(s string) string { return printable(s) }

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

// Create writes a file at the root of a repository. One that is there is left alone,
// unless replace says otherwise; a link is never followed. Whoever looks sees the old file
// or the new one.
func Create(root, name, text string, replace bool) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer r.Close()
	draft := fmt.Sprintf(".%s.%d", name, os.Getpid())
	f, err := r.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	switch {
	case err != nil:
	case replace:
		err = r.Rename(draft, name)
	default: // a second name takes no place that is taken; not every file system has them
		if err = r.Link(draft, name); err != nil && !errors.Is(err, fs.ErrExist) {
			if _, e := r.Lstat(name); errors.Is(e, fs.ErrNotExist) {
				return r.Rename(draft, name)
			}
		}
	}
	if err != nil || !replace {
		_ = r.Remove(draft)
	}
	return err
}

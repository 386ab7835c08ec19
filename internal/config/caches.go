package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/sandbox"
)

// caches are where package managers keep what they have downloaded or built, below a home. Clones of
// git repositories (.cargo/git) are left out, as their config may hold a token; those inside a
// directory of this list are covered, see rootfs.
var caches = map[string][]string{
	"npm":    {".npm/_cacache"},
	"pnpm":   {".local/share/pnpm/store", ".cache/pnpm"},
	"yarn":   {".cache/yarn", ".yarn/berry/cache"},
	"bun":    {".bun/install/cache"},
	"pip":    {".cache/pip"},
	"uv":     {".cache/uv"},
	"cargo":  {".cargo/registry/cache", ".cargo/registry/index", ".cargo/registry/src"},
	"go":     {"go/pkg/mod", ".cache/go-build"},
	"maven":  {".m2/repository"},
	"gradle": {".gradle/caches/modules-2", ".gradle/wrapper/dists"},
}

// cacheSigns are the files of a project that say which package manager it uses. In each
// group the first that is found counts.
var cacheSigns = [][]struct{ cache, files string }{
	{{"pnpm", "pnpm-lock.yaml"}, {"yarn", "yarn.lock"}, {"bun", "bun.lock bun.lockb"}, {"npm", "package-lock.json npm-shrinkwrap.json package.json"}},
	{{"uv", "uv.lock"}, {"pip", "requirements.txt pyproject.toml setup.py Pipfile"}},
	{{"cargo", "Cargo.toml"}},
	{{"go", "go.mod go.work"}},
	{{"maven", "pom.xml"}},
	{{"gradle", "build.gradle build.gradle.kts settings.gradle settings.gradle.kts"}},
}

// CachesFor lists the caches that a project uses, by the files in its directories.
func CachesFor(dirs ...string) (names []string) {
	has := func(files string) bool {
		for name := range strings.FieldsSeq(files) {
			if slices.ContainsFunc(dirs, func(dir string) bool { return dir != "" && exists(filepath.Join(dir, name)) }) {
				return true
			}
		}
		return false
	}
	for _, group := range cacheSigns {
		for _, sign := range group {
			if has(sign.files) {
				names = append(names, sign.cache)
				break
			}
		}
	}
	return names
}

// cacheNames are the caches to lend: those of the config, or those that the project uses.
func (l *Loaded) cacheNames() []string {
	if l.setsCaches() {
		return l.Config.Caches
	}
	return CachesFor(slices.Compact([]string{l.places.Dir, l.Repository})...)
}

func (l *Loaded) setsCaches() bool { return l.tree != nil && l.tree.get("caches") != nil }

// Caches are the caches of the user's that a sandbox starts with.
func (l *Loaded) Caches(rec *sandbox.Record) (list []sandbox.Cache) {
	if rec.Workspace.Mode == sandbox.WorkspaceNone && !l.setsCaches() {
		return nil // there is no project
	}
	for _, name := range l.cacheNames() {
		for i, dir := range caches[name] {
			target := filepath.Join(l.places.Home, dir)
			real, err := filepath.EvalSymlinks(target)
			if err != nil {
				continue
			}
			info, err := os.Stat(real)
			if err != nil || !info.IsDir() || on(target, l.places.Dir) || on(l.places.Dir, target) || l.allowed(mount{Mount: sandbox.Mount{Source: real, Target: target, ReadOnly: true}}) != nil {
				continue // it is nowhere, in the workspace already, or no cache
			}
			one := sandbox.Cache{Name: fmt.Sprintf("%s-%d", name, i), Source: real, Target: target}
			if l.setsCaches() || !l.inTheWayOf(one, rec.Mounts) {
				list = append(list, one)
			}
		}
	}
	return list
}

// inTheWayOf says whether a cache that nobody asked for is where a mount is, or where the
// administrator forbids mounts.
func (l *Loaded) inTheWayOf(c sandbox.Cache, mounts []sandbox.Mount) bool {
	return slices.ContainsFunc(mounts, func(m sandbox.Mount) bool { return on(c.Target, m.Target) || on(m.Target, c.Target) }) ||
		l.Floor.forbids(c.Source, l.places.Home, true, "%s") != nil
}

// An Install is what a project needs before its programs run: the directory that its lock
// file speaks of is missing.
type Install struct{ Lock, Dir, Command string }

var installs = []Install{
	{"pnpm-lock.yaml", "node_modules", "pnpm install"},
	{"yarn.lock", "node_modules", "yarn install"},
	{"bun.lock", "node_modules", "bun install"},
	{"package-lock.json", "node_modules", "npm ci"},
	{"uv.lock", ".venv", "uv sync"},
	{"poetry.lock", ".venv", "poetry install"},
	{"composer.lock", "vendor", "composer install"},
}

// MissingInstall finds what nobody has installed yet in a workspace.
func MissingInstall(workspace string) (Install, bool) {
	i := slices.IndexFunc(installs, func(i Install) bool {
		return exists(filepath.Join(workspace, i.Lock)) && !exists(filepath.Join(workspace, i.Dir)) && !exists(filepath.Join(workspace, ".pnp.cjs"))
	})
	if i < 0 {
		return Install{}, false
	}
	return installs[i], true
}

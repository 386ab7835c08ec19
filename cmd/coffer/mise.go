package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// A repository's tools for mise come from the host's mise, read-only, and from 'mise install' inside. The host never
// runs mise, whose config can run programs.

// mise is the host's.
type mise struct {
	program string // the path of mise, inside too
	data    string // its directory, with installs and shims
}

// ownTools is where mise installs in a sandbox, below the home.
const ownTools = ".local/share/coffer/mise"

// miseTime is how long an install inside may take.
const miseTime = 15 * time.Minute

// trustVariable names what mise reads without asking.
const trustVariable = "MISE_TRUSTED_CONFIG_PATHS"

// findMise finds the host's mise and mounts it in a new sandbox; nil if there is none or no tools are named.
func (s *settings) findMise(rec *sandbox.Record, top string) *mise {
	home := sandbox.Me().Home
	data := miseData(home)
	if info, err := os.Stat(data); err != nil || !info.IsDir() {
		return nil
	}
	// A workspace that is the home has no room of its own for tools.
	if !s.conf.Mise() || !rec.Image.None() || rec.Workspace.Mode == sandbox.WorkspaceNone || rec.Workspace.Path == home {
		return nil
	}
	place, err := (&agent.Agent{Name: "mise", Command: "mise"}).Locate(agentHost())
	if err != nil || place.Own || !utf8.ValidString(data+place.Program) {
		return nil
	}
	if !namesTools(".") && !namesTools(top) && !namesTools(rec.Workspace.Path) {
		return nil
	}
	m := &mise{program: place.Program, data: data}
	m.show(rec, place.Show, home)
	return m
}

// miseData is where the host's mise has its tools, by the rules of mise.
func miseData(home string) string {
	if dir := os.Getenv("MISE_DATA_DIR"); filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "mise")
	}
	return filepath.Join(home, ".local/share/mise")
}

// show adds what a sandbox does not see anyway of mise and its tools, read-only.
func (m *mise) show(rec *sandbox.Record, dirs []string, home string) {
	seen := rootfs.Shown(home)
	for _, dir := range append(slices.Clone(dirs), filepath.Join(m.data, "installs"), filepath.Join(m.data, "shims")) {
		real, err := filepath.EvalSymlinks(dir)
		within := func(o string) bool { return o != "" && (dir == o || safepath.Within(dir, o)) }
		if err != nil || within(rec.Workspace.Path) || slices.ContainsFunc(seen, within) {
			continue
		}
		if mount := (sandbox.Mount{Source: real, Target: dir, ReadOnly: true}); !slices.Contains(rec.Mounts, mount) {
			rec.Mounts = append(rec.Mounts, mount)
		}
	}
	rec.Mounts = inOrder(rec.Mounts)
}

// furnish gives all programs of a sandbox the tools.
func (m *mise) furnish(sb *sandbox.Sandbox) error {
	if m == nil {
		return nil
	}
	own := filepath.Join(sandbox.Me().Home, ownTools)
	env := []string{trustVariable + "=" + sb.Workspace.Path, "MISE_YES=1"}
	path := []string{rootfs.Own + "/bin"}
	if sb.Network.None() {
		// Nothing can be installed: what the host has is all there is.
		env = append(env, "MISE_DATA_DIR="+m.data, "MISE_NOT_FOUND_AUTO_INSTALL=0")
	} else {
		env = append(env, "MISE_DATA_DIR="+own, "MISE_SHARED_INSTALL_DIRS="+filepath.Join(m.data, "installs"))
		path = append(path, filepath.Join(own, "shims"))
	}
	path = append(path, filepath.Join(m.data, "shims"))
	has := func(name string) bool {
		return slices.ContainsFunc(slices.Concat(sb.Env, sb.EnvFrom), func(e string) bool { return strings.HasPrefix(e, name+"=") })
	}
	for _, e := range env {
		if name, _, _ := strings.Cut(e, "="); !has(name) {
			sb.Env = append(sb.Env, e)
		}
	}
	if !has("PATH") {
		// The user's PATH of the moment stays, between ours and the place of mise itself.
		around := strings.NewReplacer("$", "$$")
		sb.EnvFrom = append(sb.EnvFrom, "PATH="+around.Replace(strings.Join(path, ":"))+
			":${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}:"+around.Replace(filepath.Dir(m.program)))
	}
	return sb.Save()
}

// trustAnew has mise trust the workspace of a sandbox that was copied from another one.
func trustAnew(sb *sandbox.Sandbox, was string) error {
	i := slices.Index(sb.Env, trustVariable+"="+was)
	if i < 0 {
		return nil
	}
	sb.Env = slices.Clone(sb.Env) // the other one's, too
	sb.Env[i] = trustVariable + "=" + sb.Workspace.Path
	return sb.Save()
}

// installing runs 'mise install'. That fails when it cannot mend links beside the host's tools, so look again.
const installing = `"$0" install && exit
code=$?
"$0" reshim >/dev/null 2>&1
missing=$("$0" ls --missing 2>&1) && [ -z "$missing" ] || exit $code`

// namesTools says whether a directory names versions of tools. Only names are looked at.
func namesTools(dir string) bool {
	return dir != "" && slices.ContainsFunc([]string{
		"mise.toml", ".mise.toml", ".tool-versions", "mise.local.toml", ".mise.local.toml",
		"mise/config.toml", ".mise/config.toml", ".config/mise.toml", ".config/mise/config.toml",
	}, func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	})
}

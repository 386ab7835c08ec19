package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/sandbox"
)

// TestCachesFor: in each group the most specific file counts.
func TestCachesFor(t *testing.T) {
	for files, want := range map[string]string{
		"":                               "",
		"package.json":                   "npm",
		"package.json pnpm-lock.yaml":    "pnpm",
		"pyproject.toml uv.lock go.mod":  "uv go",
		"requirements.txt Cargo.toml":    "pip cargo",
		"build.gradle.kts pom.xml":       "maven gradle",
		"Makefile":                       "",
		"package-lock.json package.json": "npm",
	} {
		dir := t.TempDir()
		write(t, dir, files)
		if got := strings.Join(CachesFor("", dir), " "); got != want {
			t.Errorf("%q: got %q, want %q", files, got, want)
		}
	}
}

// TestDefaultCachesYield: a cache that nobody asked for keeps no sandbox from starting.
func TestDefaultCachesYield(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	write(t, dir, "package.json")
	target := filepath.Join(home, ".npm/_cacache")
	if err := os.MkdirAll(target, 0o755); err != nil {
		t.Fatal(err)
	}
	direct := sandbox.Record{Workspace: sandbox.Workspace{Path: dir, Mode: sandbox.WorkspaceDirect}}
	mounted := direct
	mounted.Mounts = []sandbox.Mount{{Source: "/srv", Target: filepath.Join(home, ".npm")}}
	p := DefaultPlaces(dir, home)
	forbids, err := parseFloor("policy.toml", []byte("mounts.forbid = [\"~/.npm\"]"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		floor *Floor
		rec   sandbox.Record
		want  int
	}{
		{"by default", nil, direct, 1},
		{"without a project", nil, sandbox.Record{Workspace: sandbox.Workspace{Mode: sandbox.WorkspaceNone}}, 0},
		{"where a mount is", nil, mounted, 0},
		{"where the administrator forbids mounts", forbids, direct, 0},
	} {
		l := &Loaded{places: p, Repository: dir, Floor: c.floor}
		if got := l.Caches(&c.rec); len(got) != c.want {
			t.Errorf("%s: got %v, want %d", c.name, got, c.want)
		}
	}
}

func write(t *testing.T, dir, files string) {
	t.Helper()
	for _, name := range strings.Fields(files) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

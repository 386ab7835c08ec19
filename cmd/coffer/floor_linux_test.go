package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/testbed"
)

// withFloor makes the administrator's policy say something, for this test. It has to be
// root's, who may be one of a namespace.
func withFloor(t *testing.T, text string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	floorPath = filepath.Join(dir, "policy.toml")
	t.Cleanup(func() { floorPath = "" })
	if err := os.WriteFile(floorPath, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// No flag gets below the floor.
func TestFloorAndFlags(t *testing.T) {
	if os.Getuid() != 0 && !testbed.Apart(t) {
		return
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("XDG_STATE_HOME", "")
	work := filepath.Join(home, "work")
	if err := os.MkdirAll(filepath.Join(work, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(work)
	withFloor(t, "forbid_nesting = true\n[network]\nmax = \"standard\"\ndeny = [\"example.com\"]\nforbid_host_ports = true\n")
	for name, c := range map[string]struct {
		s    settings
		want string
	}{
		"nothing":   {settings{}, ""},
		"nesting":   {settings{nesting: true}, "containers inside, which the administrator"},
		"network":   {settings{networkFlags: networkFlags{net: "open"}}, "the network would be open, and can be standard at most"},
		"less":      {settings{networkFlags: networkFlags{net: "none"}}, ""},
		"host port": {settings{networkFlags: networkFlags{hostPorts: []string{"80"}}}, "port 80 of this machine could be reached"},
	} {
		rec, err := c.s.record(t.Context(), nil)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if name == "nothing" && (len(rec.Network.Rules) != 1 || rec.Network.Max != "standard") {
			t.Errorf("%s: %+v", name, rec.Network)
		}
	}
	n, err := newNetwork()
	if err != nil || n.Max != "standard" {
		t.Errorf("policy show: %+v, %v", n, err)
	}
	// A sandbox that was made before.
	sb := &sandbox.Sandbox{Record: sandbox.Record{Nesting: true}}
	if err := holdToFloor(sb); err == nil {
		t.Error("an old sandbox starts with nesting")
	}
	sb = &sandbox.Sandbox{Record: sandbox.Record{Network: sandbox.Network{Mode: "standard"}}}
	if err := holdToFloor(sb); err != nil || sb.Network.Max != "standard" || len(sb.Network.Rules) != 1 {
		t.Errorf("an old sandbox: %+v, %v", sb.Network, err)
	}
	// And a policy that is not root's own stops all.
	if err := os.Chmod(floorPath, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := (&settings{}).record(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "does not count") {
		t.Errorf("got %v", err)
	}
}

// A repository in a forbidden place is shown neither as a workspace, nor by a worktree, nor
// included.
func TestFloorRepositories(t *testing.T) {
	if os.Getuid() != 0 && !testbed.Apart(t) {
		return
	}
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	git := func(dir string, args ...string) {
		t.Helper()
		c := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	secret, free, linked := filepath.Join(home, "secret"), filepath.Join(home, "free"), filepath.Join(home, "linked")
	for _, dir := range []string{secret, free} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		git(dir, "init", "-q")
		git(dir, "commit", "-q", "--allow-empty", "-m", "1")
	}
	git(secret, "worktree", "add", "-q", linked)
	withFloor(t, fmt.Sprintf("mounts.forbid = [%q]\n", secret))
	store, err := sandbox.Open(filepath.Join(home, "store"))
	if err != nil {
		t.Fatal(err)
	}
	sb, lock, err := store.Create(sandbox.Record{Name: "n", Workspace: sandbox.Workspace{Path: free, Mode: sandbox.WorkspaceDirect}, Network: sandbox.Network{Mode: "none"}})
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	for dir, refused := range map[string]bool{secret: true, linked: true, free: false} {
		t.Chdir(dir)
		var tree, direct settings
		tree.decide = func() error {
			_, err := (treeFlags{}).plan(t.Context(), store, &tree)
			return err
		}
		_, treeErr := tree.record(t.Context(), nil)
		_, directErr := direct.record(t.Context(), nil)
		includeErr := include(t.Context(), store, sb, includeFlags{repo: dir})
		for what, err := range map[string]error{"a worktree": treeErr, "the directory": directErr, "included": includeErr} {
			if got := err != nil && strings.Contains(err.Error(), "the repository "+secret+" would be shown"); got != refused || !refused && err != nil {
				t.Errorf("%s of %s: %v", what, dir, err)
			}
		}
	}
	// What was included before the administrator said so does not start.
	if err := holdToFloor(sb); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(floorPath, fmt.Appendf(nil, "mounts.forbid = [%q]\n", free), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := holdToFloor(sb); err == nil {
		t.Error("it starts with a repository that has become forbidden")
	}
}

package jail

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// The holes that were measured in another jail built on Landlock, agent-locker 0.1.0, by
// the numbers they were noted under. Each is tried outside too, where it must work.

// tried tries things in a jail and outside, and fails if they work in the one or do not in
// the other.
func (v *victims) tried(t *testing.T, w written, what ...string) {
	t.Helper()
	for i := range what {
		what[i] = v.fill(what[i])
	}
	inside := v.try(t, &w, what)
	outside := v.try(t, nil, what)
	for i := range what {
		if inside[i] == "ok" {
			t.Errorf("%s works", what[i])
		}
		if outside[i] != "ok" {
			t.Errorf("%s: %s outside, so it proves nothing", what[i], outside[i])
		}
	}
}

func TestLocker1MetadataOutside(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := newStage(t, b)
		s.needNamespaces(t)
		newVictims(t, s).tried(t, s.policy(), "chmod:OUT/file", "chown:OUT/file", "utimes:OUT/file", "setxattr:OUT/file")
	})
}

func TestLocker2SocketsAndSignals(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		newVictims(t, s).tried(t, s.policy().in(layer), "connect:OUT/sock", "abstract:ABSTRACT", "kill:VICTIM")
	})
}

func TestLocker3TruncateOnOldKernels(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		for abi := 1; abi <= 2; abi++ {
			w := s.policy().in(layer)
			w.ABI = abi
			newVictims(t, newStage(t, s.Bed)).tried(t, w.at(s), "truncate:OUT/file", "open-truncate:OUT/file")
		}
	})
}

// at moves a policy to where the stage is now.
func (w written) at(s *stage) written {
	w.Context, w.Dir, w.Home = s.Bed.Work, s.Bed.Work, s.Bed.Home
	return w
}

func TestLocker4MissingContextIsNotItsParent(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		w := s.policy("sh", "-c", "touch "+s.Home+"/new").in(layer)
		w.Context = filepath.Join(s.Home, "wrok")
		if r := s.run(t, w); r.code != 125 || !strings.Contains(r.err, "does not exist") {
			t.Errorf("context: %v", r)
		}
		w.Context, w.Write = s.Work, []string{filepath.Join(s.Home, "wrok")}
		if r := s.run(t, w); r.code != 125 || !strings.Contains(r.err, "does not exist") {
			t.Errorf("writable place: %v", r)
		}
		if _, err := os.Lstat(filepath.Join(s.Home, "new")); err == nil {
			t.Error("the parent was written to")
		}
	})
}

func TestLocker5RootAndHomeAreNoContext(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		for _, dir := range []string{"/", s.Home, s.Home + "/", s.Dir, "/proc/self/root"} {
			w := s.policy("true").in(layer)
			w.Context = dir
			if r := s.run(t, w); r.code != 125 || !strings.Contains(r.err, "cannot be a context") {
				t.Errorf("%s: %v", dir, r)
			}
			w.Context, w.Write = s.Work, []string{dir}
			if r := s.run(t, w); r.code != 125 || !strings.Contains(r.err, "cannot be opened for writing") {
				t.Errorf("--write %s: %v", dir, r)
			}
		}
	})
}

func TestLocker6Persistence(t *testing.T) {
	testbed.Each(t, func(t *testing.T, b *testbed.Bed) {
		s := newStage(t, b)
		s.needNamespaces(t)
		s.repository(t, s.Work)
		for agent, bad := range map[string][]string{
			"claude":   {"write:HOME/.claude/settings.json", "write:HOME/.claude/settings.local.json", "create:HOME/.claude/commands/x", "remove:HOME/.claude/settings.json"},
			"codex":    {"write:HOME/.codex/config.toml", "remove:HOME/.codex/config.toml", "create:HOME/.codex/prompts/x"},
			"gemini":   {"write:HOME/.gemini/settings.json", "create:HOME/.gemini/extensions/x"},
			"opencode": {"write:HOME/.config/opencode/opencode.json", "create:HOME/.config/opencode/plugin/x", "create:HOME/.opencode/bin/opencode"},
			"pi":       {"write:HOME/.pi/agent/settings.json", "create:HOME/.pi/agent/extensions/x"},
		} {
			w := s.policy()
			w.Agent = findAgent(agent)
			s.write(t, filepath.Join(s.Home, ".opencode", "bin", "x"), "")
			bad = append(bad, "create:WORK/.git/hooks/x", "write:WORK/.git/config", "create:WORK/.vscode/tasks.json", "mkdir:WORK/.vscode", "create:WORK/.envrc")
			v := &victims{stage: s}
			for i := range bad {
				bad[i] = strings.NewReplacer("HOME", s.Home, "WORK", s.Work).Replace(bad[i])
			}
			for i, got := range v.try(t, &w, bad) {
				if got == "ok" {
					t.Errorf("%s: %s works", agent, bad[i])
				}
			}
			// What it needs to write it can, at once and by renaming.
			dir := w.Agent.State[0].dir(s.Home, w.lookup)
			w.Argv = []string{"sh", "-c", "cd " + dir + " && echo x >.new && mv .new .state && mkdir -p sessions && echo x >sessions/a"}
			if r := s.run(t, w); r.code != 0 {
				t.Errorf("%s cannot write its state: %v", agent, r)
			}
			s.unclean(t, s.Work)
		}
		v := &victims{stage: s}
		if got := v.try(t, nil, []string{"mkdir:" + s.Work + "/.vscode", "create:" + s.Work + "/.envrc", "write:" + s.Home + "/.codex/config.toml", "write:" + s.Work + "/.git/config"}); strings.Join(got, "") != "okokokok" {
			t.Errorf("%v outside, so it proves nothing", got)
		}
	})
}

func TestLocker7HostileGitFile(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		other := filepath.Join(s.Home, "other")
		s.repository(t, other)
		git := filepath.Join(other, ".git")
		// The context says that it is a worktree of another repository: of its
		// git directory itself, of one of its worktrees, of one made up.
		s.git(t, other, "worktree", "add", "-q", filepath.Join(s.Home, "real"))
		fake := filepath.Join(s.Work, "fake", "worktrees", "x")
		s.write(t, filepath.Join(fake, "gitdir"), s.Work+"/.git\n")
		s.write(t, filepath.Join(fake, "commondir"), git+"\n")
		s.write(t, filepath.Join(fake, "HEAD"), "ref: refs/heads/main\n")
		for _, to := range []string{git, filepath.Join(git, "worktrees", "real"), fake} {
			s.write(t, filepath.Join(s.Work, ".git"), "gitdir: "+to+"\n")
			w := s.policy("true").in(layer)
			if r := s.run(t, w); r.code != 0 || !strings.Contains(r.err, "does not name this worktree in return") {
				t.Errorf("%s: %v", to, r)
			}
			v := &victims{stage: s}
			what := []string{"write:" + git + "/config", "write:" + git + "/HEAD", "create:" + git + "/objects/x", "write:" + git + "/worktrees/real/HEAD"}
			for i, got := range v.try(t, &w, what) {
				if got == "ok" {
					t.Errorf("%s: %s works", to, what[i])
				}
			}
		}
		v := &victims{stage: s}
		if got := v.try(t, nil, []string{"write:" + git + "/config"}); got[0] != "ok" {
			t.Errorf("%s outside, so it proves nothing", got)
		}
	})
}

// TestLocker8Subdirectory: that the repository above stays read-only is said. (The other
// half of it, a directory called worktrees, is in TestLinkedWorktree.)
func TestLocker8Subdirectory(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		s.repository(t, s.Work)
		s.write(t, filepath.Join(s.Work, "sub", "x"), "")
		w := s.policy("true").in(layer)
		w.Context, w.Dir = filepath.Join(s.Work, "sub"), filepath.Join(s.Work, "sub")
		r := s.run(t, w)
		contains(t, r.err, "the repository of "+s.Work+" stays read-only")
	})
}

// TestLocker9OwnConfigDirectory: who has moved claude's directory keeps it, and can write
// to it, also by renaming; nothing else is seeded.
func TestLocker9OwnConfigDirectory(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		own := filepath.Join(s.Home, "my-claude")
		w := s.policy("sh", "-c", `cd "$CLAUDE_CONFIG_DIR" && echo '{"x":1}' >.claude.json.tmp && mv .claude.json.tmp .claude.json`).in(layer)
		w.Agent = findAgent("claude")
		for name, value := range w.Agent.Environ(s.Home, func(n string) (string, bool) { return own, n == "CLAUDE_CONFIG_DIR" }) {
			w.Env = append(w.Env, name+"="+value)
		}
		if r := s.run(t, w); r.code != 0 {
			t.Fatal(r)
		}
		if b, err := os.ReadFile(filepath.Join(own, ".claude.json")); err != nil || string(b) != "{\"x\":1}\n" {
			t.Errorf("%q, %v", b, err)
		}
		if _, err := os.Lstat(filepath.Join(s.Home, ".claude")); err == nil {
			t.Error("the usual place was made too")
		}
		// Somewhere that nobody may have.
		w.Env = append(s.Env(), "CLAUDE_CONFIG_DIR="+s.Home)
		if r := s.run(t, w); r.code != 125 {
			t.Errorf("the home as its directory: %v", r)
		}
	})
}

// TestLocker10Devices: pseudo-terminals and shared memory work where a view gives the
// program its own, and those of others are closed in every layer.
func TestLocker10Devices(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		v := newVictims(t, s)
		w := s.policy().in(layer)
		if got := v.try(t, &w, []string{"pty:", "create:/dev/shm/coffer-test"}); layer == Namespaces && strings.Join(got, "") != "okok" {
			t.Errorf("%v", got)
		}
		if _, err := os.Lstat("/dev/shm/coffer-test"); err == nil {
			os.Remove("/dev/shm/coffer-test")
			t.Error("the host's shared memory was written to")
		}
		v.tried(t, w, "open:TERMINAL")
		if layer == Landlock {
			return // it is said that modes can be changed
		}
		// They can be written to, but are the host's: root must not change their modes or times.
		for _, command := range []string{"chmod 666 /dev/null", "touch -c /dev/null", "chown 0 /dev/null"} {
			if r := s.shell(t, layer, "echo x >/dev/null || exit 0; "+command); r.code == 0 {
				t.Errorf("%s works", command)
			}
		}
	})
}

// TestLocker11ForeignCalls: TIOCSTI by the doors that an x86-64 filter forgets, and
// TIOCLINUX.
func TestLocker11ForeignCalls(t *testing.T) {
	eachLayer(t, func(t *testing.T, s *stage, layer Layer) {
		newVictims(t, s).tried(t, s.policy().in(layer), "int80:", "tiocsti:", "tiocsti64:", "tioclinux:")
	})
}

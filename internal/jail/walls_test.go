package jail

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/agent"
)

// TestWallsTable: what is known of each kernel, spelled out for some.
func TestWallsTable(t *testing.T) {
	const (
		attributes = "modes, owners"
		settings   = "git's directory"
		secrets    = "files with secrets"
		others     = "command lines"
		left       = "left running"
		signals    = "sent signals"
		sockets    = "the Unix sockets"
		abstract   = "abstract"
		later      = "from now on"
		ports      = "only the ports are kept"
		unkept     = "rules for the network are not kept"
	)
	for _, c := range []struct {
		name   string
		policy Policy
		host   Host
		gaps   []string
		noUnix bool
	}{
		{"newest", Policy{Net: NetHost}, Host{9, Namespaces, true, false}, nil, false},
		{"today", Policy{Net: NetHost}, Host{7, Namespaces, true, false}, []string{later}, false},
		{"today, strict", Policy{Net: NetHost, Strict: true}, Host{7, Namespaces, true, false}, nil, true},
		{"today, strict, sockets wanted", Policy{Net: NetHost, Strict: true, Unix: true}, Host{7, Namespaces, true, false}, []string{later}, false},
		{"old", Policy{Net: NetHost}, Host{1, Namespaces, true, false}, nil, true},
		{"old, no network", Policy{Net: NetNone}, Host{1, Namespaces, true, true}, []string{later}, false},
		{"old, sockets wanted", Policy{Net: NetHost, Unix: true}, Host{5, Namespaces, true, false}, []string{abstract, later}, false},
		{"old, no processes", Policy{Net: NetHost}, Host{5, Namespaces, false, false}, []string{others, signals}, true},
		{"today, no processes", Policy{Net: NetHost}, Host{6, Namespaces, false, false}, []string{others, later}, false},
		{"no namespaces", Policy{Net: NetHost}, Host{7, Landlock, false, false}, []string{attributes, left, settings, secrets, others}, true},
		{"no namespaces, newest", Policy{Net: NetHost}, Host{9, Landlock, false, false}, []string{attributes, left, settings, secrets, others}, false},
		{"no namespaces, old", Policy{Net: NetNone}, Host{5, Landlock, false, false}, []string{attributes, left, settings, secrets, others, signals}, true},
		{"no namespaces, old, sockets wanted", Policy{Net: NetHost, Unix: true}, Host{5, Landlock, false, false}, []string{attributes, left, settings, secrets, others, signals, sockets, abstract}, false},
		{"rules", Policy{Net: NetRules}, Host{9, Namespaces, true, true}, nil, false},
		{"rules, old", Policy{Net: NetRules}, Host{1, Namespaces, true, true}, []string{later}, false},
		{"rules, no network namespace", Policy{Net: NetRules}, Host{9, Namespaces, true, false}, []string{ports}, false},
		{"rules, no network namespace, old", Policy{Net: NetRules}, Host{3, Namespaces, true, false}, nil, true},
		{"rules for everything, no network namespace", Policy{Net: NetRules, every: true}, Host{9, Namespaces, true, false}, []string{unkept}, false},
		{"rules, no namespaces", Policy{Net: NetRules}, Host{7, Landlock, false, false}, []string{attributes, left, settings, secrets, others, ports}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.policy.Walls(c.host)
			if w.NoUnix != c.noUnix {
				t.Errorf("Unix sockets are off: %v", w.NoUnix)
			}
			if w.NoTruncate != (c.host.ABI < 3) ||
				w.NoInternet != (!c.host.Network && (c.policy.Net == NetNone || c.policy.Net == NetRules && !c.policy.every && c.host.ABI < 4)) {
				t.Errorf("%+v", w)
			}
			if len(w.Gaps) != len(c.gaps) {
				t.Fatalf("%d gaps, want %d: %v", len(w.Gaps), len(c.gaps), w.Gaps)
			}
			for i, g := range w.Gaps {
				if !strings.Contains(g.What, c.gaps[i]) {
					t.Errorf("gap %d is %q, want %q", i, g.What, c.gaps[i])
				}
			}
		})
	}
}

func TestContextRoot(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"a/b/c", "a/bc", "x"} {
		if err := os.MkdirAll(filepath.Join(top, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(top, "a"), filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	in := func(names ...string) (all []string) {
		for _, n := range names {
			all = append(all, filepath.Join(top, n))
		}
		return all
	}
	for _, c := range []struct {
		dir   string
		roots []string
		want  string
	}{
		{"a/b/c", nil, "a/b/c"},
		{"a/b/c", in("a"), "a"},
		{"a/b/c", in("a", "a/b"), "a/b"},
		{"a/b/c", in("a/b", "a"), "a/b"},
		{"a/b", in("a/b"), "a/b"},
		{"a/bc", in("a/b"), "a/bc"},         // not a component
		{"a/bc", in("a/b", "a"), "a"},       //
		{"a/b/c", in("link"), "a"},          // by where it really is
		{"a/b/c", in("a/nowhere"), "a/b/c"}, // not there
		{"a/b", []string{"b", ".", ""}, "a/b"},
		{"x", in("a"), "x"},
	} {
		if got := ContextRoot(filepath.Join(top, c.dir), c.roots); got != filepath.Join(top, c.want) {
			t.Errorf("%s in %v: %s, want %s", c.dir, c.roots, got, c.want)
		}
	}
}

func TestTooMuch(t *testing.T) {
	for path, bad := range map[string]bool{
		"/": true, "/home": true, "/home/u": true, "/home/u/x": false, "/home/us": false, "/home/v": false,
		"/tmp": true, "/tmp/x": false, "/proc": true, "/dev": true, "/dev/kvm": false, "/srv/x": false,
	} {
		if got := tooMuch(path, "/home/u"); (got != "") != bad {
			t.Errorf("%s: %q", path, got)
		}
	}
}

func TestAgents(t *testing.T) {
	seen := map[string]bool{}
	for _, known := range agent.Known() {
		a := findAgent(known.Name)
		if a == nil || seen[a.Name] || len(a.State) == 0 {
			t.Errorf("%s: known twice, not found, or without a place for its state", a.Name)
		}
		seen[a.Name] = true
		mine := map[string]string{"SECRET": "s", "ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o", "GEMINI_API_KEY": "g", "SSH_AUTH_SOCK": "/s"}
		env := a.Environ("/home/u", func(n string) (string, bool) { v, ok := mine[n]; return v, ok })
		for _, n := range []string{"SECRET", "SSH_AUTH_SOCK"} {
			if _, ok := env[n]; ok {
				t.Errorf("%s is given %s", a.Name, n)
			}
		}
	}
	claude, codex := findAgent("claude"), findAgent("codex")
	nothing := func(string) (string, bool) { return "", false }
	if env := claude.Environ("/home/u", nothing); env["CLAUDE_CONFIG_DIR"] != "/home/u/.claude" {
		t.Errorf("claude's directory is not moved: %v", env)
	}
	if env := codex.Environ("/home/u", func(n string) (string, bool) { return "a", n == "ANTHROPIC_API_KEY" }); env["ANTHROPIC_API_KEY"] != "" {
		t.Errorf("codex is given another's key: %v", env)
	}
	opencode := findAgent("opencode")
	if got := opencode.State[0].dir("/home/u", func(n string) (string, bool) { return "/cfg", n == "XDG_CONFIG_HOME" }); got != "/cfg/opencode" {
		t.Errorf("opencode's directory is %s", got)
	}
	if got := claude.State[0].dir("/home/u", func(n string) (string, bool) { return "relative", n == "CLAUDE_CONFIG_DIR" }); got != "/home/u/.claude" {
		t.Errorf("a relative directory was taken: %s", got)
	}
}

// Claude's file is copied once, and never again.
func TestSeedClaude(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, ".claude")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	read := func() string {
		b, err := os.ReadFile(filepath.Join(dir, ".claude.json"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	seed := func() error { return findAgent("claude").State[0].seed(dir, home) }
	if err := seed(); err != nil || read() != "{}\n" {
		t.Fatalf("without one: %v", err)
	}
	os.Remove(filepath.Join(dir, ".claude.json"))
	os.WriteFile(filepath.Join(home, ".claude.json"), []byte(`{"a":1}`), 0o600)
	if err := seed(); err != nil || read() != `{"a":1}` {
		t.Fatalf("with one: %v", err)
	}
	os.WriteFile(filepath.Join(home, ".claude.json"), []byte(`{"a":2}`), 0o600)
	if err := seed(); err != nil || read() != `{"a":1}` {
		t.Fatalf("again: %v", err)
	}
	if info, err := os.Stat(filepath.Join(dir, ".claude.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("something was left behind: %v", entries)
	}
}

// findAgent is a known agent in a jail.
func findAgent(name string) *Agent { return NewAgent(agent.Find(agent.Known(), name)) }

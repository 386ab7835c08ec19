package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A world is a machine with a user, a repository and nothing else.
type world struct {
	Places
	t *testing.T
}

func newWorld(t *testing.T) *world {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_DATA_HOME", filepath.Join(top, "home/.local/share"))
	w := &world{Places{
		Dir: filepath.Join(top, "home/repo"), Home: filepath.Join(top, "home"),
		User: filepath.Join(top, "home/.config/coffer/config.toml"), Presets: filepath.Join(top, "home/.config/coffer/presets"),
		Trust: filepath.Join(top, "home/.local/state/coffer/trust"), Floor: filepath.Join(top, "etc/coffer/policy.toml"),
	}, t}
	floorOwner = uint32(os.Getuid())
	w.write(filepath.Join(w.Dir, ".git/HEAD"), "")
	return w
}

func (w *world) write(path, text string) {
	w.t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(w.Dir, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) load() *Loaded {
	w.t.Helper()
	l, err := w.Load()
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// Every mistake is told, with its place and a way out, and all at once.
func TestProblems(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown keys": {`
presetz = []
memroy = "2g"
nothing = 1
[limits]
memroy = "2g"
"a b" = 1
[netwrok]
`, `
coffer.toml:2:1: unknown key "presetz": did you mean "presets"?
coffer.toml:3:1: unknown key "memroy": there are agents, ai, *
coffer.toml:4:1: unknown key "nothing": *
coffer.toml:6:1: unknown key "memroy" in limits: did you mean "memory"?
coffer.toml:7:1: unknown key "a b" in limits: there are cpus, keep_free, memory, open_files, pids, timeout
coffer.toml:8:2: unknown key "netwrok": did you mean "network"?`},
		"choices": {`isolation = "conatiner"
[workspace]
mode = "copy"
[network]
mode = "Open"
`, `
coffer.toml:1:13: isolation cannot be "conatiner": did you mean "container"?
coffer.toml:3:8: workspace.mode cannot be "copy": there are auto, worktree, direct, cow, none
coffer.toml:5:8: network.mode cannot be "Open": did you mean "open"?`},
		"git": {`git.push = "always"
git.copy = [".env", "/etc/passwd", "../x", "a/../b", "sub/.GIT/config", "*.env", ""]
git.push_patterns = ["feature/*", "a b", "-x", "refs/heads/x"]
`, `
coffer.toml:1:12: git.push cannot be "always": there are ask, allow, deny
coffer.toml:2:21: git.copy: want the path of a file in the repository
coffer.toml:2:36: git.copy: want the path of a file in the repository
coffer.toml:2:44: git.copy: want the path of a file in the repository
coffer.toml:2:54: git.copy: want the path of a file in the repository
coffer.toml:2:73: git.copy: want the path of a file in the repository
coffer.toml:2:82: git.copy: want the path of a file in the repository
coffer.toml:3:35: git.push_patterns: "a b" cannot match the name of a branch
coffer.toml:3:42: git.push_patterns: "-x" cannot match the name of a branch
coffer.toml:3:48: git.push_patterns: "refs/heads/x" cannot match the name of a branch`},
		"images": {`image = "Debian 12"
`, `
coffer.toml:1:9: image: "Debian 12" is not the name of an image: it is not [HOST/]PATH[:TAG] in small letters, digits, and . _ - between them`},
		"syntax": {"nesting = true\n[limits\n", `
coffer.toml:2:8: *`},
		"values": {`presets = ["go", "go", "cobol"]
[limits]
memory = "much"
pids = 3
open_files = 3
cpus = 0
timeout = "soon"
[env]
pass = ["OK", "NOT OK", "COFFER_X", "*", "A_*"]
[env.set]
GOOD = "${A:-${B:-c}}"
BAD = "${A"
COFFER_SANDBOX = "me"
"x y" = ""
[network]
host_ports = [0, 80, "81:", "70000", "80:90"]
publish = ["1:2:3", ":80", "::80"]
socket_in = ["docker.sock"]
[[network.rules]]
name = "a"
allow = ["example.com", "exa mple.com"]
[[network.rules]]
name = "a"
allow = ["example.org"]
max_upload = "lots"
[mounts.m]
source = "~somebody/x"
target = "/etc/x"
[mounts.n]
source = "x"
target = "relative"
[mounts."o o"]
source = "x"
target = "/x/../y"
`, `
coffer.toml:1:24: there is no preset "cobol": *
coffer.toml:3:10: limits.memory: "much" is not a size: want a number and a unit, such as 512m, 2G or 1.5GiB
coffer.toml:4:8: limits.pids: 3 is too low for the sandbox itself: want at least 32
coffer.toml:5:14: limits.open_files: 3 is too low for the sandbox itself: want at least 64
coffer.toml:6:8: limits.cpus: 0 is too low for anything to run: want at least 0.01; for no limit, leave it out
coffer.toml:7:11: limits.timeout: "soon" is not a time: want something like 90s, 30m or 2h
coffer.toml:9:15: env.pass: "NOT OK" is not the name of a variable
coffer.toml:9:25: env.pass: variables that begin with COFFER_ are coffer's own
coffer.toml:9:37: env.pass: "" is not the name of a variable
coffer.toml:12:7: env.set.BAD: has a ${A that goes on with neither } nor :-
coffer.toml:13:18: env.set.COFFER_SANDBOX: variables that begin with COFFER_ are coffer's own
coffer.toml:14:9: env.set."x y": "x y" is not the name of a variable
coffer.toml:16:15: network.host_ports: "0" is not a port, nor two with a colon between
coffer.toml:16:22: network.host_ports: "81:" is not a port, nor two with a colon between
coffer.toml:16:29: network.host_ports: "70000" is not a port, nor two with a colon between
coffer.toml:17:12: network.publish: "1:2:3" is not a port, nor two with a colon between, nor one after a colon
coffer.toml:17:28: network.publish: "::80" is not a port, nor two with a colon between, nor one after a colon
coffer.toml:18:14: network.socket_in: "docker.sock" is not an absolute path on this machine, nor one that begins with ~/
coffer.toml:21:25: network.rules.allow: target "exa mple.com": *
coffer.toml:23:8: network.rules.name: there is another rule named "a" in the file
coffer.toml:25:14: network.rules.max_upload: *
coffer.toml:27:10: mounts.m.source: the home of somebody else is not known: write its path
coffer.toml:28:10: mounts.m.target: /etc belongs to the system
coffer.toml:31:10: mounts.n.target: must be an absolute path or begin with ~/, without . or .. in it or a slash at the end
coffer.toml:32:9: mounts."o o": a name has letters, digits, - and _ only, 60 at most
coffer.toml:34:10: mounts."o o".target: must be an absolute path or begin with ~/, without . or .. in it or a slash at the end`},
		"a wrong type hides the rest": {"nestign = 1\nnesting = \"yes\"\n[limits]\npids = 1.5\n", "\ncoffer.toml:2:11: nesting cannot be a TOML string"},
		"a table for a list":          {"network.rules = {}", "\ncoffer.toml:1:17: network.rules cannot be a TOML inline table"},
		"a list of something else":    {"[[network.rules]]\nallow = \"example.com\"", "\ncoffer.toml:2:9: network.rules.allow cannot be a TOML string"},
		"a number for a list":         {"[network]\nhost_ports = 80", "\ncoffer.toml:2:14: network.host_ports cannot be a TOML integer"},
		"a number that is too large":  {"limits.pids = 99999999999", "\ncoffer.toml:1:15: limits.pids: 99999999999 is more *"},
		"a key in capitals":           {"Sandbox = \"off\"\n[Limits]\nmemory = \"x\"", "\ncoffer.toml:1:1: unknown key \"Sandbox\": did you mean \"sandbox\"?\ncoffer.toml:2:2: unknown key \"Limits\": did you mean \"limits\"?"},
		"a key twice":                 {"nesting = true\nnesting = false\n", "\ncoffer.toml:2:1: *"},
		"a table twice":               {"[env]\n[limits]\n[env]\n", "\ncoffer.toml:3:2: *"},
		"a text without end":          {"nestign = 1\n[env.set]\nA = \"\"\"\nx = 1\n", "\ncoffer.toml:4:6: *"},
		"too deep":                    {"x = " + strings.Repeat("[", 100000) + strings.Repeat("]", 100000), "\ncoffer.toml:1:10005: *"},
		"a mark before the text":      {"\uFEFFpresetz = []", "\ncoffer.toml:1:1: unknown key \"presetz\": did you mean \"presets\"?"},
		"lines of another system":     {"nesting = true\r\n[limits]\r\n\tmemry = \"2g\"\r\n", "\ncoffer.toml:3:2: unknown key \"memry\" in limits: did you mean \"memory\"?"},
		"presets beside other mistakes": {"isolation = \"x\"\npresets = [\"nod\", \"nosuchthing\"]\n", `
coffer.toml:1:13: isolation cannot be "x": *
coffer.toml:2:12: there is no preset "nod": did you mean "node"?
coffer.toml:2:19: there is no preset "nosuchthing": *`},
		"not text":            {"x = \"\xff\"", "\ncoffer.toml:1:6: *"},
		"too large":           {strings.Repeat("#\n", maxFile), "\ncoffer.toml: is larger than 262144 bytes"},
		"too much":            {"presets = [" + strings.Repeat(`"",`, maxNodes+1) + "]", "\ncoffer.toml: has more than 5000 values"},
		"a mark, and no TOML": {"\uFEFFx = }", "\ncoffer.toml:1:5: *"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write("coffer.toml", c.text)
			_, err := w.Load()
			if !errors.As(err, new(Problems)) {
				t.Fatalf("got %v", err)
			}
			got, want := strings.Split(err.Error(), "\n"), strings.Split(c.want, "\n")[1:]
			for i := 0; i < max(len(got), len(want)); i++ {
				var g, w string
				if i < len(got) {
					g = got[i]
				}
				if i < len(want) {
					w = want[i]
				}
				if start, ok := strings.CutSuffix(w, "*"); g != w && !(ok && strings.HasPrefix(g, start)) {
					t.Errorf("line %d:\n got %s\nwant %s", i, g, w)
				}
			}
		})
	}
}

// No files, no config: the start goes on as if there were no such thing.
func TestNothing(t *testing.T) {
	if l, err := newWorld(t).Load(); l != nil || err != nil {
		t.Errorf("got %+v, %v", l, err)
	}
}

// The repository's files are at its root, wherever in it one works.
func TestRoot(t *testing.T) {
	w := newWorld(t)
	w.write("coffer.toml", "nesting = true")
	w.write("a/b/file", "")
	w.Dir = filepath.Join(w.Dir, "a/b")
	if l := w.load(); !l.Config.Nesting {
		t.Error("the file at the root was not read")
	}
	// Not at a home that is under version control.
	w = newWorld(t)
	w.write(filepath.Join(w.Home, ".git/HEAD"), "")
	w.write(filepath.Join(w.Home, "coffer.toml"), "nesting = true")
	w.Dir = filepath.Join(w.Home, "elsewhere")
	w.write("file", "")
	if l := w.load(); l != nil {
		t.Errorf("read %v", l.Files)
	}
}

// A repository's file is in the repository, is a file, and is not waited for.
func TestStrangeFiles(t *testing.T) {
	for name, make := range map[string]func(w *world) error{
		"a link out of the repository": func(w *world) error {
			w.write(filepath.Join(w.Home, "outside.toml"), "nesting = true")
			return os.Symlink("../outside.toml", filepath.Join(w.Dir, "coffer.toml"))
		},
		"an absolute link":  func(w *world) error { return os.Symlink("/etc/passwd", filepath.Join(w.Dir, "coffer.toml")) },
		"a link to nowhere": func(w *world) error { return os.Symlink("nowhere", filepath.Join(w.Dir, "coffer.toml")) },
		"a directory":       func(w *world) error { return os.Mkdir(filepath.Join(w.Dir, "coffer.toml"), 0o755) },
		"a pipe":            func(w *world) error { return mkfifo(filepath.Join(w.Dir, "coffer.toml")) },
		"a user's file that all can write": func(w *world) error {
			w.write(w.User, "nesting = true")
			return os.Chmod(w.User, 0o666)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if err := make(w); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Load(); err == nil {
				t.Error("it was read")
			}
		})
	}
	w := newWorld(t) // the control
	w.write("real.toml", "nesting = true")
	if err := os.Symlink("real.toml", filepath.Join(w.Dir, "coffer.toml")); err != nil {
		t.Fatal(err)
	}
	if l := w.load(); !l.Config.Nesting {
		t.Error("a link in the repository was not followed")
	}
}

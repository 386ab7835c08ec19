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
		"rules beside the rules": {`
[network]
allow = ["a.example"]
deny = ["b.example"]`, `
coffer.toml:3:1: unknown key "network.allow": what can be reached is allow of a rule, [[network.rules]]
coffer.toml:4:1: unknown key "network.deny": what cannot be reached is deny of a rule, [[network.rules]]`},
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
coffer.toml:3:1: unknown key "memroy": did you mean "limits.memory"?
coffer.toml:4:1: unknown key "nothing": there are presets, sandbox, isolation, image, nesting, workspace, limits, env, masks, mounts, network, home, caches, setup, profile, daemons, jail, ai, agents, git
coffer.toml:6:1: unknown key "memroy" in limits: did you mean "memory"?
coffer.toml:7:1: unknown key "a b" in limits: there are memory, pids, cpus, open_files, timeout, keep_free
coffer.toml:8:2: unknown key "netwrok": did you mean "network"?`},
		"wrong types": {`nesting = "yes"
presets = "go"
isolation = ["auto"]
env = 3
limits.memory = 2
limits.pids = 1.5
limits.cpus = "2"
limits.timeout = 1979-05-27
mounts.a = []
network.rules = [{ allow = "example.com" }, 7]
workspace.mode = true
`, `
coffer.toml:1:11: nesting must be true or false, not text
coffer.toml:2:11: presets must be a list, not text
coffer.toml:3:1: isolation must be text, not a list
coffer.toml:4:7: env must be a table, not a whole number
coffer.toml:5:17: limits.memory must be text, not a whole number
coffer.toml:6:15: limits.pids must be a whole number, not a number
coffer.toml:7:15: limits.cpus must be a number, not text
coffer.toml:8:18: limits.timeout must be text, not a date
coffer.toml:9:8: mounts.a must be a table, not a list
coffer.toml:10:28: network.rules.allow must be a list, not text
coffer.toml:10:45: network.rules must be a table, not a whole number
coffer.toml:11:18: workspace.mode must be text, not true or false`},
		"choices": {`isolation = "conatiner"
[workspace]
mode = "copy"
[network]
mode = "Open"
`, `
coffer.toml:1:13: isolation cannot be "conatiner": want "container"? There are auto, jail, container
coffer.toml:3:8: workspace.mode cannot be "copy": want auto, worktree, direct, cow or none
coffer.toml:5:8: network.mode cannot be "Open": want "open"? There are none, standard, ask, open`},
		"git": {`git.push = "always"
git.copy = [".env", "/etc/passwd", "../x", "a/../b", "sub/.GIT/config", "*.env", ""]
git.push_patterns = ["feature/*", "a b", "-x", "refs/heads/x"]
`, `
coffer.toml:1:12: git.push cannot be "always": want ask, allow or deny
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
		"not yet": {`[network.middleware.x]
`, `
coffer.toml:1:10: network.middleware: not available yet: this coffer has no middleware, and does not go on without what was asked for`},
		"duplicates": {`nesting = true
nesting = false
[limits]
pids = 100
[env]
[limits]
pids = 200
[env]
env.x = 1
`, `
coffer.toml:2:1: "nesting" is there already, on line 1
coffer.toml:6:2: "limits" is there already, on line 3
coffer.toml:7:1: "pids" is there already, on line 4
coffer.toml:8:2: "env" is there already, on line 5
coffer.toml:9:1: unknown key "env" in env: there are pass, set`},
		"syntax": {"nesting = true\n[limits\n", `
coffer.toml:2:8: *`},
		"several slips of the pen, and mistakes of other kinds": {`nestign = true
[network]
groups = ["npm",
  go,
  "x",
]
mode = "opne"
[limits
cpus = "not judged: whose it is is not known"
[[network.rules]]
allow = ["a b
[mounts.x]
source = 1
[env]
pass = ["A"
set = { A = open }
[env.more]
pass = [
  "A"
[git]
push = alow
[jail
`, `
coffer.toml:1:1: unknown key "nestign": did you mean "nesting"?
coffer.toml:4:3: unexpected character U+0067 'g' at start of value: text is written in quotes
coffer.toml:7:8: network.mode cannot be "opne": *
coffer.toml:8:8: expected ']' to close table name
coffer.toml:11:14: basic strings cannot have new lines
coffer.toml:13:10: mounts.x.source must be text, not a whole number
coffer.toml:16:1: the value before this line is not complete: a bracket that closes it is missing
coffer.toml:16:13: unexpected character U+006F 'o' at start of value: text is written in quotes
coffer.toml:17:6: unknown key "more" in env: there are pass, set
coffer.toml:20:1: the value before this line is not complete: a bracket that closes it is missing
coffer.toml:21:8: unexpected character U+0061 'a' at start of value: text is written in quotes
coffer.toml:22:6: expected ']' to close table name`},
		"a text without end hides the rest": {"nestign = 1\n[env.set]\nA = \"\"\"\nx = 1\n[y]\nz = \n", `
coffer.toml:1:1: unknown key "nestign": did you mean "nesting"?
coffer.toml:6:5: multiline basic string not terminated by """`},
		"what is missing, beside other mistakes": {"nestign = 1\n[mounts.m]\nsource = \"x\"\n[daemons.d]\ncwd = \"y\"\n", `
coffer.toml:1:1: unknown key "nestign": did you mean "nesting"?
coffer.toml:2:9: mounts.m.target: is missing
coffer.toml:4:10: daemons.d.command: is missing`},
		"a table twice by the library's rules": {"[limits]\npids = 100\n[limits.x]\n[limits.x.y]\n[[limits.x]]\n", `
coffer.toml:3:9: unknown key "x" in limits: *
coffer.toml:5:10: "x" is there already, on line 3`},
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
coffer.toml:1:18: presets: "go" is there already
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
coffer.toml:16:38: network.host_ports: "80" is there already
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
		"too deep":      {"x = " + strings.Repeat("[", 40) + strings.Repeat("]", 40), "\ncoffer.toml:1:1: is nested more than 16 deep"},
		"too many keys": {"[" + strings.Repeat("a.", 40) + "a]", "\ncoffer.toml:1:2: is nested more than 16 deep"},
		"too large":     {strings.Repeat("#\n", maxFile), "\ncoffer.toml: is larger than 262144 bytes"},
		"too much":      {"presets = [" + strings.Repeat(`"",`, maxNodes+1) + "]", "\ncoffer.toml: has more than 5000 values"},
		"a mark before the text": {"\uFEFFpresetz = []\nnesting = 3\n", `
coffer.toml:1:1: unknown key "presetz": did you mean "presets"?
coffer.toml:2:11: nesting must be true or false, not a whole number`},
		"a mark, and no TOML": {"\uFEFFx = }", "\ncoffer.toml:1:5: *"},
		"lines of another system": {"nesting = true\r\n[limits]\r\n\tmemry = \"2g\"\r\n  pids = \"ü\"\r\n", `
coffer.toml:3:2: unknown key "memry" in limits: did you mean "memory"?
coffer.toml:4:10: limits.pids must be a whole number, not text`},
		"letters of two bytes": {"env.set = { \"Ä\" = \"ü\", \"é\" = 1 }\n\tfoo = '€' # ß\n", `
coffer.toml:1:19: env.set."Ä": *
coffer.toml:1:30: env.set."é" must be text, not a whole number
coffer.toml:2:2: unknown key "foo": *`},
		"presets beside other mistakes": {"isolation = 3\npresets = [\"nod\", 4, \"nosuchthing\"]\n", `
coffer.toml:1:13: isolation must be text, not a whole number
coffer.toml:2:12: there is no preset "nod": did you mean "node"?
coffer.toml:2:19: presets must be text, not a whole number
coffer.toml:2:22: there is no preset "nosuchthing": *`},
		"keys that are elsewhere": {"ports = [1]\n[sockets]\n", `
coffer.toml:1:1: unknown key "ports": ports that lead inside are network.publish, those of this machine network.host_ports
coffer.toml:2:2: unknown key "sockets": sockets are network.socket_in and network.socket_out`},
		"how an agent is started that is known": {`
[agents.mine]
headless = ["-p"]
prompt = ["-i"]
resume = ["-c"]
[agents.claude]
args = ["--model", "m"]
resume = ["-c"]
headless = []
[agents]
pi.prompt = ["-i"]`, `
coffer.toml:8:1: agents.claude.resume: coffer knows how claude is started: the key is for agents other than claude, codex, gemini, opencode, pi; args are given at every start
coffer.toml:9:1: agents.claude.headless: *
coffer.toml:11:4: agents.pi.prompt: *`},
		"not text": {"x = \"\xff\"", "\ncoffer.toml: is not UTF-8"},
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

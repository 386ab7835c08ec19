package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func usual(name string) bool { return name == "LANG" }

// What a repository's files give to programs that they would not have without them.
func TestWidens(t *testing.T) {
	const data = "/usr/share" // exists everywhere
	for name, c := range map[string]struct{ user, repo, local, want string }{
		"nothing said": {"", "", "", ""},
		"narrowing": {"", `
isolation = "container"
workspace.mode = "cow"
[limits]
memory = "1g"
pids = 100
[env]
pass = ["LANG"]
set = { A = "b", L = "${LANG}", D = "$$HOME" }
[network]
mode = "none"
groups = ["npm"]
default = "deny"
[[network.rules]]
deny = ["*"]
[[network.rules]]
allow = ["api.github.com:443"]
[[network.rules]]
ask = ["example.com"]
`, "", ""},
		"a name that looks like another": {"", "[[network.rules]]\nallow = [\"\u0430pi.example.com:443\"]", "", "network: allow xn--pi-6kc.example.com:443"},
		"built-in presets":               {"", `presets = ["go", "strict", "opencode"]`, "", ""},
		"the wall":                       {"", "nesting = true", "", "nesting = true"},
		"what the user has": {"nesting = true\nenv.pass = [\"K\", \"P_*\"]\nnetwork.mode = \"open\"\nnetwork.host_ports = [80]",
			"nesting = true\nenv.pass = [\"K\"]\nenv.set = { X = \"${P_1}\" }\nnetwork.mode = \"open\"\nnetwork.host_ports = [80]\n[[network.rules]]\nallow = [\"example.com\"]", "", `env.set.X = "${P_1}"`},
		"what the user took away": {"isolation = \"container\"\nworkspace.mode = \"cow\"\nlimits = { memory = \"1g\", pids = 100, timeout = \"1m\" }\nnetwork.mode = \"none\"",
			"isolation = \"auto\"\nworkspace.mode = \"direct\"\nlimits = { memory = \"2g\", pids = 99, timeout = \"1h\" }\nnetwork.mode = \"standard\"", "", `
isolation = "auto", where you have "container"
workspace.mode = "direct", where you have "cow"
limits.memory = "2g", where you have "1g"
limits.timeout = "1h", where you have "1m"
network.mode = "standard", where you have "none"`},
		"git": {"git.copy = [\".env\"]", "[git]\npush = \"allow\"\nupstream = \"allow\"\ngh = \"allow\"\ngh_read = \"allow\"\nnested = \"open\"\ntake = true\npush_patterns = [\"feature/*\"]\ncopy = [\".env\", \"sub/secret\"]\n[workspace]\nmode = \"direct\"", "", `
workspace.mode = "direct", where you have "auto"
git.copy = ["sub/secret"]
git.push = "allow", where you have "ask"
git.push_patterns = ["feature/*"]
git.upstream = "allow", where you have "ask"
git.gh = "allow", where you have "ask"
git.gh_read = "allow", where you have "ask"
git.nested = "open", where you have "lock"
git.take = true`},
		"less kept free":      {"", "limits.keep_free = \"512m\"", "", `limits.keep_free = "512m", where you have "1g"`},
		"nothing kept free":   {"limits.keep_free = \"2g\"", "limits.keep_free = \"0\"", "", `limits.keep_free = "0", where you have "2g"`},
		"more kept free":      {"", "limits.keep_free = \"5g\"", "", ""},
		"as much as the user": {"limits.keep_free = \"0\"", "limits.keep_free = \"1m\"", "", ""},
		"git, narrower":       {"", "git.push = \"deny\"\ngit.upstream = \"deny\"\ngit.gh = \"deny\"\ngit.gh_read = \"deny\"\ngit.nested = \"lock\"", "", ""},
		"environment": {"", "[env]\npass = [\"TOKEN\", \"LANG\", \"AWS_*\"]\nset = { A = \"${B:-${C}}\" }", "env.set = { L = \"${LANG}\" }", `
env.pass = ["TOKEN", "LANG", "AWS_*"]
env.set.A = "${B:-${C}}"`},
		// Which secret goes where. What the user's own files give is not asked about, nor
		// does a yes depend on what is set, or is in the vault, just now.
		"secrets": {"[env]\npass = [\"NPM_*\"]\nset = { MINE = \"${secret:MINE}\" }",
			"[env]\nset = { MINE = \"${secret:MINE}\", A = \"${secret:S:-${secret:T}}${S}${secret:S}\", B = \"${NPM_TOKEN}\", P = \"x:${LANG}\" }\n[daemons.db]\ncommand = [\"db\"]\nenv = { PW = \"${secret:DB}\" }", "", `
env.set.A = "${secret:S:-${secret:T}}${S}${secret:S}"
env.set.B = "${NPM_TOKEN}"
daemons.db.env.PW = "${secret:DB}"`},
		"network": {"", `
[network]
mode = "open"
default = "allow"
host_ports = [5432, "8080:80"]
publish = [3000]
socket_in = ["/run/docker.sock"]
socket_out = ["/tmp/a:~/a"]
[[network.rules]]
allow = ["example.com", "github.com:443"]
max_upload = "1MB"
[[network.rules]]
allow = ["10.0.0.0/8"]
protocol = "udp"
[[network.rules]]
name = "off"
enabled = false
allow = ["*"]
`, "", `
network.mode = "open", where you have "standard"
network.default = "allow"
network.host_ports = ["5432", "8080:80"]
network.publish = ["3000"]
network.socket_in = ["/run/docker.sock"]
network.socket_out = ["/tmp/a:~/a"]
network: allow example.com
network: allow 10.0.0.0/8`},
		"a group where there is no network": {"network.mode = \"none\"", "network.groups = [\"npm\"]", "", "network: allow @npm"},
		"the user's rule": {"[[network.rules]]\nname = \"never\"\ndeny = [\"example.com\"]", "[[network.rules]]\nname = \"never\"\nenabled = false", "",
			"network: your own rule never is changed"},
		"the user's bound": {"[[network.rules]]\nname = \"b\"\nallow = [\"example.com\"]\nmax_upload = \"1MB\"", "[[network.rules]]\nname = \"b\"\nmax_upload = \"1GB\"", "",
			"network: your own rule b is changed\nnetwork: allow example.com"},
		"the user's plain rule, less of it": {"[[network.rules]]\nname = \"r\"\nallow = [\"a.example\", \"b.example\"]", "[[network.rules]]\nname = \"r\"\nallow = [\"a.example\"]", "", "network: your own rule r is changed"},
		"mounts": {"", `
[mounts.inside]
source = "sub"
target = "/inside"
[mounts.link]
source = "link"
target = "/link"
[mounts.outside]
source = "/usr/share"
target = "/data"
[mounts.rw]
source = "sub"
target = "/rw"
read_only = false
[mounts.off]
source = "/var"
target = "/off"
enabled = false
[mounts.new]
source = "new"
target = "/new"
missing = "create"
`, "", `
mounts: programs can read ` + data + ` of this machine, as /link
mounts: programs can have made on this machine, and read, REPO/new of this machine, as /new
mounts: programs can read ` + data + ` of this machine, as /data
mounts: programs can read and change REPO/sub of this machine, as /rw`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write("sub/file", "")
			if err := os.Symlink(data, filepath.Join(w.Dir, "link")); err != nil {
				t.Fatal(err)
			}
			w.write(w.User, c.user)
			w.write("coffer.toml", c.repo)
			w.write("coffer.local.toml", c.local)
			got, err := w.load().Widens(usual)
			if err != nil {
				t.Fatal(err)
			}
			want := strings.TrimSpace(strings.ReplaceAll(c.want, "REPO", w.Dir))
			if strings.Join(got, "\n") != want {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
			}
		})
	}
	// The user's own files need nobody's yes.
	w := newWorld(t)
	w.write(w.User, "nesting = true\nnetwork.mode = \"open\"")
	if got, err := w.load().Widens(usual); got != nil || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

// A change of one of the user's own rules is asked about, whatever it is: also one that says
// allow may take away, by its bound.
func TestWidensOwnRule(t *testing.T) {
	const user = `
[[network.rules]]
name = "all"
allow = ["*.example.com:443"]
[[network.rules]]
name = "cap"
allow = ["api.example.com:443"]
max_upload = "1MB"
[[network.rules]]
name = "no"
deny = ["a.example.com", "b.example.com"]
protocol = "http"
methods = ["POST"]
`
	for rule, want := range map[string]string{
		`name = "cap"`:                                                "",
		`name = "cap"` + "\nenabled = false":                          "cap",
		`name = "cap"` + "\nallow = [\"x.example.com:443\"]":          "cap",
		`name = "cap"` + "\nmax_upload = \"2MB\"":                     "cap",
		`name = "cap"` + "\nprotocol = \"http\"\nmethods = [\"GET\"]": "cap",
		`name = "no"` + "\ndeny = [\"a.example.com\"]":                "no",
		`name = "no"` + "\nmethods = [\"POST\", \"PUT\"]":             "no",
	} {
		w := newWorld(t)
		w.write(w.User, user)
		w.write("coffer.toml", "[[network.rules]]\n"+rule)
		got, err := w.load().Widens(usual)
		if err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		if want != "" {
			want = "network: your own rule " + want + " is changed"
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%s: got\n%s\nwant\n%s", rule, strings.Join(got, "\n"), want)
		}
	}
}

// A yes is for exactly these files in this place, and for no more than they asked for.
func TestTrust(t *testing.T) {
	w := newWorld(t)
	store, err := w.TrustStore()
	if err != nil {
		t.Fatal(err)
	}
	has := func(words ...string) bool {
		t.Helper()
		ok, err := store.Has(w.load(), words)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	agree := func(words ...string) {
		t.Helper()
		if err := store.Add(w.load(), words); err != nil {
			t.Fatal(err)
		}
	}
	w.write("coffer.toml", "nesting = true\n")
	if has("a") || store.Changes(w.load()) != "" {
		t.Error("trusted before anybody was asked")
	}
	agree("a", "b")
	if !has("a", "b") || !has("b") || !has() {
		t.Error("forgotten")
	}
	if has("a", "c") {
		t.Error("it asks for more, with the same files")
	}
	for file, text := range map[string]string{
		"coffer.toml":                                 "nesting = true \n",
		"coffer.local.toml":                           "limits.pids = 100",
		".sandboxignore":                              "x",
		filepath.Join(w.Presets, "unused.toml"):       "",
		filepath.Join(w.Home, ".config/coffer/other"): "",
	} {
		before, _ := os.ReadFile(filepath.Join(w.Dir, file))
		w.write(file, text)
		if inRepo := !filepath.IsAbs(file); has("a") == inRepo {
			t.Errorf("%s was changed, and it is trusted: %v", file, !inRepo)
		}
		if w.write(file, string(before)); file != "coffer.toml" && !filepath.IsAbs(file) {
			if err := os.Remove(filepath.Join(w.Dir, file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !has("a") {
		t.Error("the files are as they were, and not trusted")
	}
	// A preset that a file names is part of it.
	w.write("coffer.toml", `presets = ["mine"]`)
	w.write(filepath.Join(w.Presets, "mine.toml"), "nesting = true\n")
	if n, err := store.Revoke(w.Dir); n != 1 || err != nil {
		t.Errorf("revoked %d, %v", n, err)
	}
	agree("a")
	w.write(filepath.Join(w.Presets, "mine.toml"), "nesting = false\n")
	if has("a") {
		t.Error("a preset has changed, and it is trusted")
	}
	if got := store.Changes(w.load()); !strings.Contains(got, "+++ preset mine, now\n") || !strings.Contains(got, "-nesting = true\n") || !strings.Contains(got, "+nesting = false\n") || strings.Contains(got, "coffer.toml") {
		t.Errorf("changed:\n%s", got)
	}
	w.write("coffer.toml", "nesting = true\n")
	here := w.Dir
	w.Dir = filepath.Join(w.Home, "other")
	w.write("coffer.toml", "nesting = true\n")
	if has("a") {
		t.Error("the same files elsewhere are trusted")
	}
	agree("a")
	list, err := store.List()
	if err != nil || len(list) != 2 {
		t.Errorf("listed %v, %v", list, err)
	}
	if info, err := os.Stat(w.Trust); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if n, err := store.Revoke(here); n != 1 || err != nil || !has("a") {
		t.Errorf("revoked %d, %v", n, err)
	}
	// A file under another one's name is no yes.
	yes := filepath.Join(w.Trust, grantName(w.Dir, w.load().asked))
	w.write("coffer.toml", "nesting = true # and more\n")
	if err := os.Rename(yes, filepath.Join(w.Trust, grantName(w.Dir, w.load().asked))); err != nil {
		t.Fatal(err)
	}
	if has("a") {
		t.Error("a file that says something else counts")
	}
	if n, err := store.Revoke(""); n != 1 || err != nil {
		t.Errorf("revoked %d, %v", n, err)
	}
	// Nothing is left half written.
	left, err := os.ReadDir(w.Trust)
	if err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	// A yes of the time when it was to sentences does not count, and is taken back like others.
	w.write(filepath.Join(w.Trust, grantName(w.Dir, w.load().asked)), `{"version": 1, "repository": "`+w.Dir+`", "widens": ["a"]}`)
	if has("a") {
		t.Error("an old yes counts")
	}
	if list, err := store.List(); len(list) != 0 || err != nil {
		t.Errorf("listed %v, %v", list, err)
	}
	if n, err := store.Revoke(w.Dir); n != 1 || err != nil {
		t.Errorf("revoked %d, %v", n, err)
	}
}

// Where programs inside could write a yes, there is none.
func TestTrustInWorkspace(t *testing.T) {
	w := newWorld(t)
	w.Trust = filepath.Join(w.Dir, "state/trust")
	if _, err := w.TrustStore(); err == nil {
		t.Error("the workspace was accepted")
	}
	w.write("state/x", "")
	w.Trust = filepath.Join(w.Home, "link/trust")
	if err := os.Symlink(filepath.Join(w.Dir, "state"), filepath.Join(w.Home, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.TrustStore(); err == nil {
		t.Error("a link into the workspace was accepted")
	}
}

// What no yes helps against.
func TestForbiddenMounts(t *testing.T) {
	w := newWorld(t)
	w.write(filepath.Join(w.Home, "data/x"), "")
	w.write(w.User, "")
	if err := os.Symlink(w.Home, filepath.Join(w.Dir, "home")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ source, target, rest, want string }{
		{"~/data", "/data", "", ""},
		{"~/data", "~/data", "read_only = false", ""},
		{"~/data/x", "/tmp/x", "", ""},
		{".", "/repo", "", ""},
		{"/", "/x", "", "the whole machine"},
		{"~", "/x", "", "whole home"},
		{"~/..", "/x", "", "whole home"},
		{"home", "/x", "", "whole home"},
		{"home/data", "/x", "", ""},
		{"/proc/self", "/x", "", "no files"},
		{"/dev/null", "/x", "", "neither"},
		{"/dev/shm", "/x", "", "no files"},
		{"~/.config", "/x", "", "coffer's own"},
		{"~/.config/coffer", "/x", "", "coffer's own"},
		{"~/.local/state", "/x", "missing = \"create\"", "coffer's own"},
		{"~/.local/share/coffer/sandboxes", "/x", "missing = \"create\"", "coffer's own"},
		{".", "/x", "read_only = false", "repository"},
		{".git", "/x", "read_only = false", "git directory"},
		{".git", "/x", "", ""},
		{"~/data", "HOME", "", "own home"},
		{"~/data", "REPO", "", "workspace"},
		{"~/data", "REPO/sub", "", "workspace"},
		{"~/none", "/x", "", "does not exist"},
		{"~/none", "/x", "missing = \"warn\"", ""},
	} {
		text := "[mounts.m]\nsource = \"" + c.source + "\"\ntarget = \"" + c.target + "\"\n" + c.rest
		w.write("coffer.toml", strings.NewReplacer("HOME", w.Home, "REPO", w.Dir).Replace(text))
		_, err := w.load().Mounts(func(string) {}, true)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s on %s: %v, want %q", c.source, c.target, err, c.want)
		}
	}
	w.write("coffer.toml", "[mounts.b]\nsource = \"~/made/here\"\ntarget = \"/x/y\"\nmissing = \"create\"\n[mounts.a]\nsource = \"~/data\"\ntarget = \"/x\"")
	list, err := w.load().Mounts(nil, true)
	if err != nil || len(list) != 2 || list[0].Target != "/x" || list[1].Source != filepath.Join(w.Home, "made/here") {
		t.Errorf("got %v, %v", list, err)
	}
	if info, err := os.Stat(filepath.Join(w.Home, "made/here")); err != nil || !info.IsDir() {
		t.Errorf("it was not made: %v", err)
	}
	w.write("coffer.toml", "[mounts.b]\nsource = \"~/data\"\ntarget = \"/x\"\n[mounts.a]\nsource = \"~/data\"\ntarget = \"/x\"")
	if _, err := w.load().Mounts(nil, true); err == nil || !strings.Contains(err.Error(), "same target") {
		t.Errorf("got %v", err)
	}
	var warned []string
	w.write("coffer.toml", "[mounts.b]\nsource = \"~/none\"\ntarget = \"/x\"\nmissing = \"warn\"")
	list, err = w.load().Mounts(func(s string) { warned = append(warned, s) }, true)
	if err != nil || len(list) != 0 || !slices.ContainsFunc(warned, func(s string) bool { return strings.Contains(s, "mounts.b") }) {
		t.Errorf("got %v, %v, warned %v", list, err, warned)
	}
}

// A link that changes after the user was asked leads nowhere else.
func TestAgreedMount(t *testing.T) {
	w := newWorld(t)
	w.write(filepath.Join(w.Home, "harmless/x"), "")
	w.write(filepath.Join(w.Home, "secret/x"), "")
	link := filepath.Join(w.Dir, "link")
	if err := os.Symlink("../harmless", link); err != nil {
		t.Fatal(err)
	}
	w.write("coffer.toml", "[mounts.m]\nsource = \"link\"\ntarget = \"/m\"")
	l := w.load()
	asked, err := l.Widens(usual)
	if err != nil || len(asked) != 1 || !strings.Contains(asked[0], w.Home+"/harmless") {
		t.Fatal(asked, err)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../secret", link); err != nil {
		t.Fatal(err)
	}
	got, err := l.Mounts(nil, true)
	if err != nil || len(got) != 1 || got[0].Source != filepath.Join(w.Home, "harmless") {
		t.Errorf("got %v, %v", got, err)
	}
	again, err := w.load().Widens(usual)
	if err != nil || len(again) != 1 || !strings.Contains(again[0], w.Home+"/secret") {
		t.Errorf("the next start asks about %v, %v", again, err)
	}
	store := Trust{w.Trust}
	if err := store.Add(l, asked); err != nil {
		t.Fatal(err)
	}
	if has, err := store.Has(w.load(), again); has || err != nil {
		t.Errorf("the link leads elsewhere, and the yes counts: %v", err)
	}
}

// A user's config that is in the workspace may be a program's.
func TestUserConfigInWorkspace(t *testing.T) {
	w := newWorld(t)
	w.write("dot/config.toml", "nesting = true")
	if err := os.MkdirAll(filepath.Dir(w.User), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(w.Dir, "dot/config.toml"), w.User); err != nil {
		t.Fatal(err)
	}
	if got, err := w.load().Widens(usual); err != nil || len(got) != 1 {
		t.Errorf("asked about %v, %v", got, err)
	}
	w.Dir = filepath.Join(w.Home, "elsewhere")
	w.write("x", "")
	if got, err := w.load().Widens(usual); err != nil || len(got) != 0 {
		t.Errorf("elsewhere asked about %v, %v", got, err)
	}
}

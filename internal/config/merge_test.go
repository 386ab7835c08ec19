package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/policy"
)

// What the merged config is, and where each value comes from.
func TestMerge(t *testing.T) {
	for name, c := range map[string]struct{ user, repo, local, want string }{
		"defaults": {"", "", "", `
git.gh = "ask"  # built-in
git.gh_read = "ask"  # built-in
git.nested = "lock"  # built-in
git.push = "ask"  # built-in
git.upstream = "ask"  # built-in
isolation = "auto"  # built-in
limits.keep_free = "1g"  # built-in
nesting = false  # built-in
network.mode = "standard"  # built-in
sandbox = "auto"  # built-in
workspace.mode = "auto"  # built-in`},
		"the last value counts": {"limits.pids = 100\nlimits.cpus = 1", "limits.pids = 200\n", "\nlimits.pids = 300", `
git.gh = "ask"  # built-in
git.gh_read = "ask"  # built-in
git.nested = "lock"  # built-in
git.push = "ask"  # built-in
git.upstream = "ask"  # built-in
isolation = "auto"  # built-in
limits.cpus = 1  # ~/.config/coffer/config.toml:2
limits.keep_free = "1g"  # built-in
limits.pids = 300  # coffer.local.toml:2
nesting = false  # built-in
network.mode = "standard"  # built-in
sandbox = "auto"  # built-in
workspace.mode = "auto"  # built-in`},
		"lists add up": {
			"[network]\ngroups = [\"npm\", \"go\"]\nhost_ports = [80]", "[network]\ngroups = [\"go\",\n\"pypi\"]", "env.pass = [\"A\"]\nnetwork.host_ports = [81, 80]", `
env.pass = ["A"]  # coffer.local.toml:1
git.gh = "ask"  # built-in
git.gh_read = "ask"  # built-in
git.nested = "lock"  # built-in
git.push = "ask"  # built-in
git.upstream = "ask"  # built-in
isolation = "auto"  # built-in
limits.keep_free = "1g"  # built-in
nesting = false  # built-in
network.groups = ["npm", "go"]  # ~/.config/coffer/config.toml:2
network.groups = ["pypi"]  # coffer.toml:3
network.host_ports = [80]  # ~/.config/coffer/config.toml:3
network.host_ports = [81]  # coffer.local.toml:2
network.mode = "standard"  # built-in
sandbox = "auto"  # built-in
workspace.mode = "auto"  # built-in`},
		"a named rule key by key, its lists replaced": {
			"[[network.rules]]\nname = \"r\"\nallow = [\"a.example\"]\nprotocol = \"tls\"\n[[network.rules]]\ndeny = [\"b.example\"]",
			"[[network.rules]]\nname = \"r\"\nallow = [\"c.example\"]\n[[network.rules]]\ndeny = [\"b.example\"]", "", `
git.gh = "ask"  # built-in
git.gh_read = "ask"  # built-in
git.nested = "lock"  # built-in
git.push = "ask"  # built-in
git.upstream = "ask"  # built-in
isolation = "auto"  # built-in
limits.keep_free = "1g"  # built-in
nesting = false  # built-in
network.mode = "standard"  # built-in
network.rules[0].allow = ["c.example"]  # coffer.toml:3
network.rules[0].name = "r"  # coffer.toml:2
network.rules[0].protocol = "tls"  # ~/.config/coffer/config.toml:4
network.rules[1].deny = ["b.example"]  # ~/.config/coffer/config.toml:6
network.rules[2].deny = ["b.example"]  # coffer.toml:5
sandbox = "auto"  # built-in
workspace.mode = "auto"  # built-in`},
		"a mount switched off from above": {
			"[mounts.m]\nsource = \"~/m\"\ntarget = \"/m\"\nenabled = true", "[mounts.m]\nenabled = false", "", `
git.gh = "ask"  # built-in
git.gh_read = "ask"  # built-in
git.nested = "lock"  # built-in
git.push = "ask"  # built-in
git.upstream = "ask"  # built-in
isolation = "auto"  # built-in
limits.keep_free = "1g"  # built-in
mounts.m.enabled = false  # coffer.toml:2
mounts.m.source = "~/m"  # ~/.config/coffer/config.toml:2
mounts.m.target = "/m"  # ~/.config/coffer/config.toml:3
nesting = false  # built-in
network.mode = "standard"  # built-in
sandbox = "auto"  # built-in
workspace.mode = "auto"  # built-in`},
		"variables by name": {
			"env.set = { A = \"1\", B = \"2\" }", "[env.set]\nB = \"3\"\nC = \"4\"", "", `
env.set.A = "1"  # ~/.config/coffer/config.toml:1
env.set.B = "3"  # coffer.toml:2
env.set.C = "4"  # coffer.toml:3
git.gh = "ask"  # built-in
git.gh_read = "ask"  # built-in
git.nested = "lock"  # built-in
git.push = "ask"  # built-in
git.upstream = "ask"  # built-in
isolation = "auto"  # built-in
limits.keep_free = "1g"  # built-in
nesting = false  # built-in
network.mode = "standard"  # built-in
sandbox = "auto"  # built-in
workspace.mode = "auto"  # built-in`},
		"presets are below the file that names them, and above lower files": {
			"workspace.mode = \"none\"\nnetwork.mode = \"ask\"", "presets = [\"strict\", \"perl\"]\nnetwork.mode = \"open\"", "", `
git.gh = "ask"  # built-in
git.gh_read = "ask"  # built-in
git.nested = "lock"  # built-in
git.push = "ask"  # built-in
git.upstream = "ask"  # built-in
isolation = "auto"  # built-in
limits.keep_free = "1g"  # built-in
nesting = false  # built-in
network.groups = ["cpan", "git-hosts"]  # preset perl:4
network.mode = "open"  # coffer.toml:2
presets = ["strict", "perl"]  # coffer.toml:1
sandbox = "auto"  # built-in
workspace.mode = "cow"  # preset strict:4`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write(w.User, c.user)
			w.write("coffer.toml", c.repo)
			w.write("coffer.local.toml", c.local)
			got := "\n" + strings.TrimSpace(w.load().Show(true))
			if got != c.want {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}

// What is shown can be read again and says the same.
func TestShowRoundTrip(t *testing.T) {
	w := newWorld(t)
	w.write("coffer.toml", `
presets = ["go"]
env.set = { "A" = "quote \" and \\ and \u0007 and é" }
limits = { memory = "1g", pids = 99, cpus = 1.5 }
[[network.rules]]
name = "x"
allow = ["example.com"]
[[network.rules]]
deny = ["example.org"]
[mounts.m]
source = "x"
target = "/x"
missing = "warn"
`)
	first := w.load()
	text := first.Show(false)
	w.write("coffer.toml", text)
	second := w.load()
	if !reflect.DeepEqual(first.Config, second.Config) {
		t.Errorf("%s\nbecame %+v\nnot %+v", text, second.Config, first.Config)
	}
}

// A file that switches off what no other file has is told so.
func TestIncomplete(t *testing.T) {
	w := newWorld(t)
	w.write("coffer.toml", "[mounts.m]\nenabled = false\n[[network.rules]]\nname = \"r\"\nenabled = false")
	_, err := w.Load()
	want := `coffer.toml:1:9: mounts.m.source: is missing
coffer.toml:1:9: mounts.m.target: is missing
coffer.toml:3:11: network.rules.allow: the rule has no targets; write allow, deny or ask, such as allow = ["example.com"]`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

// The policy is told where its layers come from.
func TestSources(t *testing.T) {
	w := newWorld(t)
	w.write(w.User, "network.groups = [\"npm\"]")
	w.write("coffer.toml", "[network]\ndefault = \"ask\"\ngroups = [\"go\", \"pypi\"]\n[[network.rules]]\nallow = [\"example.com\"]")
	want := []policy.Source{
		{Default: "ask", Origin: "coffer.toml:2"},
		{Groups: []string{"npm"}, Origin: "~/.config/coffer/config.toml:1"},
		{Groups: []string{"go", "pypi"}, Origin: "coffer.toml:3"},
		{Rules: []policy.RuleSource{{Allow: []string{"example.com"}, Origin: "coffer.toml:4"}}},
	}
	if got := w.load().Rules("standard"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	// With no network, rules that only deny do not make one.
	w.write(w.User, "")
	w.write("coffer.toml", "[[network.rules]]\ndeny = [\"example.com\"]\n[[network.rules]]\nallow = [\"example.org\"]\nenabled = false")
	if got := w.load().Rules("none"); got != nil {
		t.Errorf("got %+v", got)
	}
	w.write("coffer.toml", "[[network.rules]]\nallow = [\"example.com\"]")
	if got := w.load().Rules("none"); len(got) != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestPresets(t *testing.T) {
	w := newWorld(t)
	w.write(w.Presets+"/mine.toml", "# My own\npresets = [\"perl\", \"theirs\"]\nnesting = true")
	w.write(w.Presets+"/theirs.toml", "limits.pids = 77")
	w.write(w.Presets+"/go.toml", "# Another go\nlimits.cpus = 3")
	list, err := w.FindPresets()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]Preset{}
	for _, p := range list {
		seen[p.Name] = p
	}
	for _, name := range []string{"node", "go", "python", "rust", "java", "debian", "claude-code", "mine"} {
		if seen[name].About == "" && name != "theirs" {
			t.Errorf("%s: %+v", name, seen[name])
		}
	}
	if !seen["go"].User || seen["go"].About != "Another go" || seen["node"].User {
		t.Errorf("go: %+v, node: %+v", seen["go"], seen["node"])
	}
	w.write("coffer.toml", "presets = [\"mine\", \"go\"]")
	c := w.load().Config
	if !c.Nesting || c.Limits.Pids != 77 || c.Limits.CPUs != 3 || fmt.Sprint(c.Network.Groups) != "[cpan git-hosts]" || fmt.Sprint(c.Presets) != "[mine go]" {
		t.Errorf("got %+v", c)
	}
	w.write(w.Presets+"/theirs.toml", "presets = [\"mine\"]")
	if _, err := w.Load(); err == nil || !strings.Contains(err.Error(), "mine → theirs → mine") {
		t.Errorf("a circle: %v", err)
	}
	for _, name := range []string{"../../x", "", ".", "a/b"} {
		if _, err := w.Preset(name); err == nil {
			t.Errorf("there is a preset %q", name)
		}
	}
}

// Each built-in preset is valid alone, and all are together.
func TestBuiltinPresets(t *testing.T) {
	w := newWorld(t)
	list, err := w.FindPresets()
	if err != nil || len(list) < 20 {
		t.Fatal(len(list), err)
	}
	var all []string
	for _, p := range list {
		w.write("coffer.toml", p.Text)
		w.load()
		if p.About == "" || len(p.About) > 88 {
			t.Errorf("%s: about %q", p.Name, p.About)
		}
		all = append(all, fmt.Sprintf("%q", p.Name))
	}
	w.write("coffer.toml", "presets = ["+strings.Join(all, ",")+"]")
	w.load()
}

// There is a preset for each agent, which has what the agent itself is given: its hosts, and
// the keys that it is logged in by unless they are those of any provider.
func TestAgentPresets(t *testing.T) {
	w := newWorld(t)
	names := map[string]string{"claude": "claude-code"}
	for _, a := range agent.Known() {
		w.write("coffer.toml", fmt.Sprintf("presets = [%q]\nnetwork.mode = \"none\"\n", cmp.Or(names[a.Name], a.Name)))
		l := w.load()
		if !slices.Contains(l.Config.Network.Groups, "agents") {
			t.Errorf("%s: the preset has not the group agents", a.Name)
		}
		if a.Name == "opencode" || a.Name == "pi" {
			continue
		}
		for _, v := range a.Pass {
			if secret := strings.HasSuffix(v, "_KEY") || strings.HasSuffix(v, "_TOKEN"); secret && !slices.Contains(l.Config.Env.Pass, v) {
				t.Errorf("%s: the preset does not pass %s on", a.Name, v)
			}
		}
	}
}

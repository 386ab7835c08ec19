package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// What the administrator forbids, nobody gets.
func TestFloor(t *testing.T) {
	rules := func(list ...policy.RuleSource) []policy.Source { return []policy.Source{{Rules: list}} }
	for name, c := range map[string]struct {
		floor string
		rec   sandbox.Record
		want  string // part of the refusal; "" if there is none
	}{
		"nothing":         {"", sandbox.Record{Nesting: true, Network: sandbox.Network{Mode: "open"}}, ""},
		"a stronger wall": {"isolation = \"gvisor\"", sandbox.Record{}, "the administrator of this machine wants a gvisor at least (FLOOR:1)"},
		"this wall":       {"isolation = \"container\"", sandbox.Record{}, ""},
		"nesting":         {"\nforbid_nesting = true", sandbox.Record{Nesting: true}, "containers inside, which the administrator of this machine does not allow (FLOOR:2)"},
		"no nesting":      {"forbid_nesting = true", sandbox.Record{}, ""},
		"mode":            {"network.max = \"standard\"", sandbox.Record{Network: sandbox.Network{Mode: "ask"}}, "the network would be ask, and can be standard at most"},
		"less":            {"network.max = \"standard\"", sandbox.Record{Network: sandbox.Network{Mode: "none"}}, ""},
		"ask":             {"network.max = \"ask\"", sandbox.Record{Network: sandbox.Network{Mode: "ask", Rules: rules(policy.RuleSource{Allow: []string{"example.com"}})}}, ""},
		"ask, default":    {"network.max = \"ask\"", sandbox.Record{Network: sandbox.Network{Mode: "ask", Rules: []policy.Source{{Default: "allow"}}}}, "wider than ask"},
		"a rule":          {"network.max = \"standard\"", sandbox.Record{Network: sandbox.Network{Mode: "standard", Rules: rules(policy.RuleSource{Allow: []string{"example.com"}})}}, "wider than standard: example.com"},
		"a question":      {"network.max = \"standard\"", sandbox.Record{Network: sandbox.Network{Mode: "standard", Rules: rules(policy.RuleSource{Ask: []string{"example.com"}})}}, "wider than standard: example.com"},
		"a rule within":   {"network.max = \"standard\"", sandbox.Record{Network: sandbox.Network{Mode: "none", Rules: rules(policy.RuleSource{Allow: []string{"@npm", "github.com:443"}})}}, ""},
		"a group":         {"network.max = \"none\"", sandbox.Record{Network: sandbox.Network{Mode: "none", Rules: []policy.Source{{Groups: []string{"npm"}}}}}, "wider than none: @npm"},
		"a default":       {"network.max = \"standard\"", sandbox.Record{Network: sandbox.Network{Mode: "standard", Rules: []policy.Source{{Default: "ask"}}}}, "wider than standard"},
		"host ports":      {"network.forbid_host_ports = true", sandbox.Record{Network: sandbox.Network{Mode: "none", HostPorts: []sandbox.HostPort{{Inside: 80, Outside: 81}}}}, "port 81 of this machine could be reached"},
		"a mount":         {"mounts.forbid = [\"/srv/a\"]", sandbox.Record{Mounts: []sandbox.Mount{{Source: "/srv/a/b", Target: "/x"}}}, "/srv/a/b would be mounted"},
		"a mount above":   {"mounts.forbid = [\"/srv/a\"]", sandbox.Record{Mounts: []sandbox.Mount{{Source: "/srv", Target: "/x"}}}, "/srv would be mounted"},
		"a mount beside":  {"mounts.forbid = [\"/srv/a\"]", sandbox.Record{Mounts: []sandbox.Mount{{Source: "/srv/ab", Target: "/x"}}}, ""},
		"any mount":       {"mounts.forbid = [\"/\"]", sandbox.Record{Mounts: []sandbox.Mount{{Source: "/srv/ab", Target: "/x"}}}, "would be mounted"},
		"not a workspace": {"mounts.forbid = [\"/\"]", sandbox.Record{Workspace: sandbox.Workspace{Path: "/srv/w"}}, ""},
		"a home's":        {"mounts.forbid = [\"~/.ssh\"]", sandbox.Record{Mounts: []sandbox.Mount{{Source: "/home/me/.ssh/x", Target: "/x"}}}, "would be mounted"},
		"a socket":        {"mounts.forbid = [\"/srv/a\"]", sandbox.Record{Sockets: []sandbox.Socket{{Way: sandbox.SocketIn, Host: "/srv/a/s", Inside: "/s"}}}, "the socket /srv/a/s"},
		"nothing kept":    {"limits.keep_free = \"1m\"", sandbox.Record{Limits: sandbox.Limits{KeepFree: -1}}, "nothing of a disk would be kept free, which the administrator"},
		"little kept":     {"limits.keep_free = \"5g\"", sandbox.Record{Limits: sandbox.Limits{KeepFree: 1 << 20}}, ""},
		"a workspace":     {"mounts.forbid = [\"/srv/a\"]", sandbox.Record{Workspace: sandbox.Workspace{Path: "/srv/a"}}, "/srv/a would be the workspace"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write(w.Floor, c.floor)
			l := w.load()
			err := l.Floor.Enforce(&c.rec, "container", "/home/me")
			want := strings.ReplaceAll(c.want, "FLOOR", w.Floor)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// What is kept free of a disk is raised to the floor, and never lowered.
func TestFloorKeepFree(t *testing.T) {
	for _, c := range []struct {
		floor    string
		had, has int64
	}{
		{"5g", 0, 5 << 30}, {"5g", 1 << 20, 5 << 30}, {"5g", 6 << 30, 6 << 30}, {"100m", 0, 0}, {"100m", 1 << 20, 100 << 20}, {"0", 0, 0}, {"0", -1, -1},
	} {
		fl, err := parseFloor("policy.toml", []byte("limits.keep_free = \""+c.floor+"\""))
		if err != nil {
			t.Fatal(err)
		}
		rec := sandbox.Record{Limits: sandbox.Limits{KeepFree: c.had}}
		if err := fl.Enforce(&rec, "container", "/home/me"); err != nil || rec.Limits.KeepFree != c.has {
			t.Errorf("%s, %d: %d, %v; want %d", c.floor, c.had, rec.Limits.KeepFree, err, c.has)
		}
	}
}

// The floor's rules beat everything, also what the user allows while the sandbox runs.
func TestFloorRules(t *testing.T) {
	w := newWorld(t)
	w.write(w.Floor, "[network]\nmax = \"standard\"\ndeny = [\"github.com\"]")
	floor, err := w.ReadFloor()
	if err != nil {
		t.Fatal(err)
	}
	rec := sandbox.Record{Network: sandbox.Network{Mode: "standard"}}
	for range 2 { // a second start changes nothing
		if err := floor.Enforce(&rec, "container", "/home/me"); err != nil {
			t.Fatal(err)
		}
	}
	if len(rec.Network.Rules) != 1 || rec.Network.Max != "standard" {
		t.Errorf("got %+v", rec.Network)
	}
	live := policy.Source{Grants: true, Rules: []policy.RuleSource{{Allow: []string{"github.com:443", "example.com:443", "gitlab.com:443"}}, {Allow: []string{"*"}}, {Deny: []string{"bitbucket.org"}}}}
	set, err := policy.Stack{Mode: rec.Network.Mode, Max: rec.Network.Max, Rules: rec.Network.Rules}.Compile(live)
	if err != nil {
		t.Fatal(err)
	}
	free, err := policy.Stack{Mode: "standard"}.Compile(live)
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string][2]policy.Verdict{ // with the floor, and without
		"github.com:443": {policy.Deny, policy.Allow}, "example.com:443": {policy.Deny, policy.Allow}, "gitlab.com:443": {policy.Allow, policy.Allow},
		"anything.example:443": {policy.Deny, policy.Allow}, "bitbucket.org:443": {policy.Deny, policy.Deny},
	} {
		q, err := policy.ParseURL(host)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]policy.Verdict{set.Decide(q).Verdict, free.Decide(q).Verdict}; got != want {
			t.Errorf("%s: %v, want %v", host, got, want)
		}
	}
}

// A policy that is not root's own word stops everything.
func TestFloorOwner(t *testing.T) {
	for name, spoil := range map[string]func(w *world) error{
		"written by others":              func(w *world) error { return os.Chmod(w.Floor, 0o666) },
		"written by a group":             func(w *world) error { return os.Chmod(w.Floor, 0o664) },
		"in a directory open to others":  func(w *world) error { return os.Chmod(filepath.Dir(w.Floor), 0o777) },
		"somebody else's":                func(w *world) error { floorOwner = uint32(os.Getuid()) + 1; return nil },
		"a link":                         func(w *world) error { return os.Rename(w.Floor, w.Floor+"x") },
		"a directory":                    func(w *world) error { _ = os.Remove(w.Floor); return os.Mkdir(w.Floor, 0o755) },
		"wrong":                          func(w *world) error { return os.WriteFile(w.Floor, []byte("max = 1"), 0o644) },
		"with a promise we do not know":  func(w *world) error { return os.WriteFile(w.Floor, []byte("audit = true"), 0o644) },
		"with a target that is not one":  func(w *world) error { return os.WriteFile(w.Floor, []byte("network.deny = [\"a b\"]"), 0o644) },
		"with a path that is none":       func(w *world) error { return os.WriteFile(w.Floor, []byte("mounts.forbid = [\"x\"]"), 0o644) },
		"with a size that is none":       func(w *world) error { return os.WriteFile(w.Floor, []byte("limits.keep_free = \"much\""), 0o644) },
		"with the keys of a config file": func(w *world) error { return os.WriteFile(w.Floor, []byte("nesting = true"), 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			defer func() { floorOwner = 0 }()
			w.write(w.Floor, "network.max = \"none\"")
			if _, err := w.Load(); err != nil {
				t.Fatal(err) // the control
			}
			if err := spoil(w); err != nil {
				t.Fatal(err)
			}
			if name == "a link" {
				if err := os.Symlink(w.Floor+"x", w.Floor); err != nil {
					t.Fatal(err)
				}
			}
			if l, err := w.Load(); err == nil {
				t.Errorf("it was accepted: %+v", l)
			} else {
				t.Log(err)
			}
		})
	}
}

// A link does not lead a socket around the floor, nor a forbidden place that is one.
func TestFloorFollowsLinks(t *testing.T) {
	w := newWorld(t)
	w.write(filepath.Join(w.Home, "real/app.sock"), "")
	w.link("real", filepath.Join(w.Home, "forbidden"))
	w.link("real/app.sock", filepath.Join(w.Home, "elsewhere.sock"))
	fl, err := parseFloor(w.Floor, []byte("mounts.forbid = [\"~/forbidden\"]"))
	if err != nil {
		t.Fatal(err)
	}
	for name, refused := range map[string]bool{"elsewhere.sock": true, "real/app.sock": true, "forbidden/app.sock": true, "other.sock": false} {
		rec := sandbox.Record{Sockets: []sandbox.Socket{{Host: filepath.Join(w.Home, name)}}}
		if err := fl.Enforce(&rec, "container", w.Home); (err != nil) != refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is kept free of a disk is shown as it holds: the built-in default, and what the floor
// Defaults that nobody asked for are lowered to the floor.
func TestFloorDefaults(t *testing.T) {
	w := newWorld(t)
	w.write(w.Floor, "isolation = \"container\"\nforbid_nesting = true\n[network]\nmax = \"none\"\nforbid_host_ports = true\n")
	l := w.load()
	if l.Config.Network.Mode != "none" || l.Config.Isolation != "container" {
		t.Errorf("got %+v", l.Config)
	}
	shown := func() string { return strings.ReplaceAll(w.load().Show(true), w.Floor, "FLOOR") }
	for _, want := range []string{"network.mode = \"none\"  # FLOOR:4\n", "isolation = \"container\"  # FLOOR:1\n", "sandbox = \"auto\"  # built-in\n"} {
		if got := shown(); !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	// A floor that leaves room changes nothing.
	w.write("coffer.toml", "")
	w.write(w.Floor, "isolation = \"jail\"\nnetwork.max = \"open\"\n")
	if l := w.load(); l.Config.Network.Mode != "standard" || l.Config.Isolation != "auto" {
		t.Errorf("got %+v", l.Config)
	}
}

// Every key of the floor is enforced: one that a test does not know is one that may do nothing.
func TestFloorKeys(t *testing.T) {
	known := "audit forbid_nesting isolation limits.keep_free mounts.forbid network.deny network.forbid_host_ports network.max"
	var got []string
	for _, l := range leaves(reflect.TypeFor[Floor](), "", false) {
		got = append(got, l.path)
	}
	slices.Sort(got)
	if strings.Join(got, " ") != known {
		t.Errorf("the keys are %q; prove a new one in TestFloor, and name it here", got)
	}
}

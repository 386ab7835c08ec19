package policy

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// All problems are found at once, each with its place.
func TestProblems(t *testing.T) {
	off := false
	_, err := Compile(
		Source{Default: "maybe", Groups: []string{"npm", "nmp"}},
		Source{Rules: []RuleSource{
			{Allow: []string{"example.com", "exa mple.com"}, Deny: []string{"10.0.0.1/8"}, Ask: []string{"@x"}},
			{Name: "a\x1b[2Jb", Allow: []string{"example.com"}, Protocol: "https"},
			{},
			{Allow: []string{"example.com"}, Protocol: "tcp", Methods: []string{"GET"}},
			{Allow: []string{"example.com"}, Protocol: "http", Methods: []string{"GET", "G T", ""}, Paths: []string{"/a", "b"}},
			{Deny: []string{"example.com"}, MaxUpload: "10MB"},
			{Allow: []string{"example.com"}, MaxUpload: "lots", MaxDownload: "0"},
			{Allow: []string{"e..com"}, Enabled: &off},
			{Allow: []string{"example.com"}, Protocol: "udp", Paths: []string{"/a"}},
			{Allow: []string{"example.com"}, Protocol: "http", Inspect: true, TLS: "pass"},
			{Deny: []string{"example.com"}, Inspect: true, TLS: "pass"},
			{Allow: []string{"example.com"}, Inspect: true, TLS: "pass"},
			{Allow: []string{"example.com"}, TLS: "end"},
		}},
	)
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatalf("got %v", err)
	}
	var got []Problem
	for _, p := range problems {
		if p.Msg == "" || strings.Contains(p.Msg, "\x1b") {
			t.Errorf("message of %+v: %q", p, p.Msg)
		}
		if !strings.Contains(err.Error(), p.Error()) {
			t.Errorf("%q is not in %q", p.Error(), err)
		}
		p.Msg = ""
		got = append(got, p)
	}
	want := []Problem{
		{0, -1, "default", -1, ""}, {0, -1, "groups", 1, ""},
		{1, 0, "deny", 0, ""}, {1, 0, "ask", 0, ""}, {1, 0, "allow", 1, ""},
		{1, 1, "name", -1, ""}, {1, 1, "protocol", -1, ""},
		{1, 2, "allow", -1, ""},
		{1, 3, "methods", -1, ""},
		{1, 4, "methods", 1, ""}, {1, 4, "methods", 2, ""}, {1, 4, "paths", 1, ""},
		{1, 5, "max_upload", -1, ""},
		{1, 6, "max_upload", -1, ""}, {1, 6, "max_download", -1, ""},
		{1, 7, "allow", 0, ""},
		{1, 8, "paths", -1, ""},
		{1, 9, "inspect", -1, ""}, {1, 9, "tls", -1, ""},
		{1, 10, "inspect", -1, ""}, {1, 10, "tls", -1, ""},
		{1, 11, "tls", -1, ""}, {1, 12, "tls", -1, ""},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestTooManyTargets(t *testing.T) {
	many := make([]string, maxTargets+1)
	for i := range many {
		many[i] = "example.com"
	}
	if _, err := Compile(rules(RuleSource{Allow: many[1:]})); err != nil {
		t.Errorf("as many as there may be: %v", err)
	}
	if _, err := Compile(rules(RuleSource{Allow: many})); err == nil {
		t.Error("one more was accepted")
	}
}

func TestGroups(t *testing.T) {
	list := Groups()
	var names []string
	for _, g := range list {
		names = append(names, g.Name)
		if g.About == "" || len(g.Targets) == 0 || len(g.Targets) > 20 {
			t.Errorf("%s: about %q, %d targets", g.Name, g.About, len(g.Targets))
		}
		for _, text := range g.Targets {
			target, err := ParseTarget(text)
			if err != nil {
				t.Errorf("%s: %v", g.Name, err)
				continue
			}
			if target.String() != text {
				t.Errorf("%s: %s is written %s", g.Name, text, target)
			}
			want := "80,443"
			if g.Name == "git-hosts" {
				want = "22,80,443"
			}
			if target.ports.String() != want || target.kind != exactly && target.kind != below {
				t.Errorf("%s: %s", g.Name, text)
			}
			if target.kind == below && !strings.Contains(target.host, ".") {
				t.Errorf("%s: %s is a whole top-level domain", g.Name, text)
			}
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("names: %v", names)
	}
	for _, want := range []string{
		"agents", "git-hosts", "npm", "pypi", "go", "crates", "maven", "rubygems", "debian", "ubuntu", "fedora", "alpine", "arch", "containers", "nix", "homebrew",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("there is no group %s", want)
		}
	}
}

func TestModes(t *testing.T) {
	for mode, want := range map[string][4]Verdict{ // group host, its other ports, another name, a public address
		"none":     {Deny, Deny, Deny, Deny},
		"standard": {Allow, Deny, Deny, Deny},
		"ask":      {Allow, Ask, Ask, Ask},
		"open":     {Allow, Allow, Allow, Allow},
	} {
		src, err := Builtin(mode)
		if err != nil {
			t.Fatal(err)
		}
		set := compile(t, src)
		for i, text := range []string{"api.anthropic.com tls", "api.anthropic.com:22", "example.org", "1.1.1.1"} {
			if d := set.Decide(ask(t, text)); d.Verdict != want[i] || d.Origin != "built-in "+mode {
				t.Errorf("%s: %s: %+v, want %v", mode, text, d, want[i])
			}
		}
		for _, a := range []string{"10.0.0.1", "127.0.0.1", "169.254.169.254", "fd00:ec2::254", "::1"} {
			if d := set.Address(Query{Port: 80}, addr(a), nil); d.Verdict != Deny {
				t.Errorf("%s: %s: %+v", mode, a, d)
			}
		}
	}
	if !slices.Equal(Modes, []string{"none", "standard", "ask", "open"}) {
		t.Errorf("modes: %v", Modes)
	}
	if _, err := Builtin("everything"); err == nil || !strings.Contains(err.Error(), "standard") {
		t.Errorf("got %v", err)
	}
	// What the agents talk to when they are used.
	src, _ := Builtin("standard")
	set := compile(t, src)
	for _, host := range []string{
		"api.anthropic.com", "platform.claude.com", "downloads.claude.ai", "api.openai.com", "chatgpt.com", "ab.chatgpt.com",
		"generativelanguage.googleapis.com", "play.googleapis.com", "models.opencode.ai", "api.github.com", "github.com", "raw.githubusercontent.com",
	} {
		if d := set.Name(Query{Host: host}); d.Verdict != Allow {
			t.Errorf("%s: %+v", host, d)
		}
	}
}

// Sources are kept as JSON between runs, decisions are shown as JSON.
func TestJSON(t *testing.T) {
	on := true
	in := Source{Default: "ask", Groups: []string{"npm"}, Grants: true, Rules: []RuleSource{{
		Name: "x", Allow: []string{"a"}, Deny: []string{"b"}, Ask: []string{"c"}, Protocol: "http", Methods: []string{"GET"}, Paths: []string{"/"},
		MaxUpload: "1k", MaxDownload: "2k", Enabled: &on, Origin: "coffer.toml:12",
	}}}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out Source
	if err := json.Unmarshal(text, &out); err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("%s became %+v, %v", text, out, err)
	}
	if strings.Contains(string(text), "expires") {
		t.Errorf("no expiry is written: %s", text)
	}
	for v, want := range map[Verdict]string{Deny: `"deny"`, Ask: `"ask"`, Allow: `"allow"`} {
		text, err := json.Marshal(v)
		var back Verdict
		if err != nil || string(text) != want || json.Unmarshal(text, &back) != nil || back != v {
			t.Errorf("%v: %s, %v, %v", v, text, err, back)
		}
	}
	for _, p := range []Protocol{Any, TCP, UDP, TLS, HTTP} {
		text, _ := p.MarshalText()
		var back Protocol
		if err := back.UnmarshalText(text); err != nil || back != p {
			t.Errorf("%v: %s, %v", p, text, err)
		}
	}
	var v Verdict
	var zero Decision
	if v != Deny || zero.Verdict != Deny || v.UnmarshalText([]byte("Allow")) == nil {
		t.Error("what is not said is not denied")
	}
}

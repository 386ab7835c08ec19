package agent

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Agents are found wherever people's installers put them, and what a sandbox must see of
// that is named.
func TestLocate(t *testing.T) {
	script := func(t *testing.T, file, first string) {
		put(t, file, "#!"+first+"\n")
		if err := os.Chmod(file, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// mise answers a question as it is told.
	mise := func(t *testing.T, home, answer string) {
		put(t, home+"/.local/bin/mise", "#!/bin/sh\n[ \"$PWD $1 $MISE_OFFLINE\" = '/ which 1' ] || exit 1\n"+answer+"\n")
		os.Chmod(home+"/.local/bin/mise", 0o755)
		os.MkdirAll(home+"/.local/share/mise/shims", 0o755)
		os.Symlink(home+"/.local/bin/mise", home+"/.local/share/mise/shims/claude")
	}
	const sh, node = "/bin/sh", "/usr/bin/env node"
	for _, tt := range []struct {
		name    string
		lay     func(t *testing.T, home string)
		program string // relative to the home
		show    string
	}{
		{"native installer", func(t *testing.T, home string) {
			script(t, home+"/.local/share/claude/versions/2.1.5", sh)
			os.MkdirAll(home+"/.local/bin", 0o755)
			os.Symlink(home+"/.local/share/claude/versions/2.1.5", home+"/.local/bin/claude")
		}, ".local/bin/claude", ".local/share/claude/versions"},
		{"nvm, the newest", func(t *testing.T, home string) {
			for _, v := range []string{"v9.1.0", "v22.3.0", "v20.0.0"} {
				script(t, home+"/.nvm/versions/node/"+v+"/bin/claude", node)
				script(t, home+"/.nvm/versions/node/"+v+"/bin/node", sh)
			}
		}, ".nvm/versions/node/v22.3.0/bin/claude", ""},
		{"npm prefix of .npmrc", func(t *testing.T, home string) {
			put(t, home+"/.npmrc", "fund=false\nprefix=${HOME}/stuff\n")
			script(t, home+"/stuff/lib/node_modules/@anthropic-ai/claude-code/cli.js", sh)
			put(t, home+"/stuff/lib/node_modules/@anthropic-ai/claude-code/package.json", `{"version":"2.1.7"}`)
			os.MkdirAll(home+"/stuff/bin", 0o755)
			os.Symlink("../lib/node_modules/@anthropic-ai/claude-code/cli.js", home+"/stuff/bin/claude")
		}, "stuff/lib/node_modules/@anthropic-ai/claude-code/cli.js", "stuff/lib/node_modules"},
		{"its own updater", func(t *testing.T, home string) { script(t, home+"/.claude/local/claude", sh) }, ".claude/local/claude", ".claude/local"},
		{"volta", func(t *testing.T, home string) {
			script(t, home+"/.volta/bin/volta-shim", sh)
			os.Symlink("volta-shim", home+"/.volta/bin/claude")
			os.Symlink("volta-shim", home+"/.volta/bin/node")
			put(t, home+"/.volta/tools/user/bins/claude.json", `{"name":"claude","package":"@anthropic-ai/claude-code","version":"2.1.7"}`)
			put(t, home+"/.volta/tools/user/platform.json", `{"node":{"runtime":"22.3.0","npm":null}}`)
			script(t, home+"/.volta/tools/image/packages/@anthropic-ai/claude-code/bin/claude", node)
			script(t, home+"/.volta/tools/image/node/22.3.0/bin/node", sh)
		}, ".volta/tools/image/packages/@anthropic-ai/claude-code/bin/claude", ""},
		{"volta that is not as known", func(t *testing.T, home string) { script(t, home+"/.volta/bin/claude", sh) }, ".volta/bin/claude", ""},
		{"mise, the newest", func(t *testing.T, home string) {
			mise(t, home, `exit 1`)
			for _, v := range []string{"2.9.0", "2.10.0", "2.1.7"} {
				script(t, home+"/.local/share/mise/installs/claude/"+v+"/claude", sh)
			}
			os.Symlink("2.9.0", home+"/.local/share/mise/installs/claude/latest")
		}, ".local/share/mise/installs/claude/2.10.0/claude", ""},
		{"asdf, the newest", func(t *testing.T, home string) {
			put(t, home+"/.asdf/shims/claude", "#!/usr/bin/env bash\n# asdf-plugin: nodejs 9.1.0\n# asdf-plugin: nodejs 22.3.0\nexec asdf exec \"claude\" \"$@\"\n")
			os.Chmod(home+"/.asdf/shims/claude", 0o755)
			script(t, home+"/.asdf/installs/nodejs/22.3.0/bin/claude", node)
			script(t, home+"/.asdf/installs/nodejs/22.3.0/bin/node", sh)
		}, ".asdf/installs/nodejs/22.3.0/bin/claude", ""},
		{"Homebrew, with its libraries", func(t *testing.T, home string) {
			script(t, home+"/.linuxbrew/Cellar/claude-code/2.1.5/bin/claude", sh)
			os.MkdirAll(home+"/.local/bin", 0o755)
			os.Symlink(home+"/.linuxbrew/Cellar/claude-code/2.1.5/bin/claude", home+"/.local/bin/claude")
		}, ".local/bin/claude", ".linuxbrew"},
		{"the tool store", func(t *testing.T, home string) {
			script(t, home+"/tools/claude/2.0.0/node_modules/pkg/cli.js", sh)
			os.MkdirAll(home+"/tools/claude/2.0.0/node_modules/.bin", 0o755)
			os.Symlink("../pkg/cli.js", home+"/tools/claude/2.0.0/node_modules/.bin/claude")
			os.Symlink("2.0.0", home+"/tools/claude/current")
		}, "tools/claude/current/node_modules/.bin/claude", "tools/claude"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			tt.lay(t, home)
			p, err := claude().Locate(Host{Home: home, Tools: home + "/tools", Variable: func(string) string { return "" }})
			if err != nil {
				t.Fatal(err)
			}
			if want := home + "/" + tt.program; p.Program != want {
				t.Errorf("%s, want %s", p.Program, want)
			}
			var show []string
			for _, d := range p.Show {
				if strings.HasPrefix(d, home) {
					show = append(show, strings.TrimPrefix(d, home+"/"))
				}
			}
			if got := strings.Join(show, " "); got != tt.show {
				t.Errorf("shows %q, want %q", got, tt.show)
			}
			if tt.name == "npm prefix of .npmrc" && p.Version != "2.1.7" || tt.name == "native installer" && p.Version != "2.1.5" {
				t.Errorf("version %q", p.Version)
			}
		})
	}
	home := t.TempDir()
	nowhere := Host{Home: home, Tools: home, Variable: func(string) string { return "" }}
	if _, err := (&Agent{Name: "x", Command: "no-such-agent"}).Locate(nowhere); !errors.Is(err, ErrNotHere) {
		t.Error(err)
	}
	// A whole home is not shown for the sake of a program in it.
	script(t, home+"/no-such-agent", sh)
	nowhere.Variable = func(name string) string { return map[string]string{"PATH": home}[name] }
	if _, err := (&Agent{Name: "x", Command: "no-such-agent"}).Locate(nowhere); err == nil || errors.Is(err, ErrNotHere) {
		t.Error(err)
	}
}

func TestNPMRegistry(t *testing.T) {
	home := t.TempDir()
	chosen := ""
	host := Host{Home: home, Variable: func(name string) string { return map[string]string{"npm_config_registry": chosen}[name] }}
	if got := NPMRegistry(host); got != "" {
		t.Errorf("without a word: %q", got)
	}
	put(t, home+"/.npmrc", "//npm.example/:_authToken=x\nregistry = https://npm.example/\n")
	if got := NPMRegistry(host); got != "https://npm.example/" {
		t.Errorf("by .npmrc: %q", got)
	}
	for variable, want := range map[string]string{
		"https://other.example/":           "https://other.example/", // it counts more
		"https://me:secret@other.example/": "https://other.example/",
		"${NOBODY}":                        "",
	} {
		if chosen = variable; NPMRegistry(host) != want {
			t.Errorf("%s: %q", variable, NPMRegistry(host))
		}
	}
}

func TestAdopt(t *testing.T) {
	tools, a := t.TempDir(), claude()
	install := func(version string) string {
		dir, _, err := Stage(tools, a)
		if err != nil {
			t.Fatal(err)
		}
		put(t, dir+"/node_modules/.bin/claude", "x")
		put(t, dir+"/node_modules/@anthropic-ai/claude-code/package.json", `{"version":"`+version+`"}`)
		return dir
	}
	for _, v := range []string{"1.0.0", "1.0.1", "1.0.2", "1.0.2"} {
		got, err := Adopt(tools, a, install(v))
		if err != nil || got != v {
			t.Fatal(got, err)
		}
		if to, _ := os.Readlink(filepath.Join(tools, "claude", current)); to != v {
			t.Errorf("current is %q", to)
		}
	}
	entries, _ := os.ReadDir(filepath.Join(tools, "claude"))
	var names []string
	for _, e := range entries {
		if e.Name()[0] != '.' {
			names = append(names, e.Name())
		}
	}
	if !slices.Equal(names, []string{"1.0.2", "current"}) && !slices.Equal(names, []string{"1.0.1", "1.0.2", "current"}) {
		t.Errorf("%q is left", names)
	}
	for _, bad := range []string{"", "../../x", "1.0.0/../../..", "latest"} {
		if v, err := Adopt(tools, a, install(bad)); err == nil {
			t.Errorf("%q was adopted as %q", bad, v)
		}
	}
	dir := install("3.0.0")
	os.RemoveAll(dir + "/node_modules/@anthropic-ai")
	os.Symlink("/etc", dir+"/node_modules/@anthropic-ai")
	if _, err := Adopt(tools, a, dir); err == nil {
		t.Error("looked outside")
	}
}

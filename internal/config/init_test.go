package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is found in a repository, and that what is written of it is a valid config that
// asks for no more than it says.
func TestInit(t *testing.T) {
	for name, c := range map[string]struct {
		files   string
		want    string
		remarks int
	}{
		"nothing":         {"README.md", "", 0},
		"go":              {"go.mod main.go", "go(go.mod)", 0},
		"several":         {"web/package.json go.mod Cargo.lock CLAUDE.md", "node(web/package.json) go(go.mod) rust(Cargo.lock) claude-code(CLAUDE.md)", 0},
		"too deep":        {"a/b/go.mod", "", 0},
		"others' code":    {"node_modules/x.gemspec vendor/go.mod .hidden/go.mod", "", 0},
		"a pattern":       {"thing.csproj", "dotnet(thing.csproj)", 0},
		"compose":         {"docker-compose.yml .devcontainer/devcontainer.json", "", 2},
		"a hostile name":  {"a\nnesting = true\n#.csproj", "dotnet(a\nnesting = true\n#.csproj)", 0},
		"every language":  {"package.json pyproject.toml pom.xml Gemfile composer.json mix.exs stack.yaml cpanfile renv.lock Project.toml pubspec.yaml flake.nix playwright.config.ts", "*", 0},
		"agents' folders": {".claude/settings.json .codex/x .gemini/x opencode.json .pi/x", "claude-code(.claude) codex(.codex) gemini(.gemini) opencode(opencode.json) pi(.pi)", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			sep := " "
			if strings.Contains(c.files, "\n") {
				sep = "\x00"
			}
			for _, f := range strings.Split(c.files, sep) {
				w.write(f, "")
			}
			found, remarks, err := Look(w.Dir)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range found {
				got = append(got, fmt.Sprintf("%s(%s)", f.Preset, f.Why))
			}
			if strings.Join(got, " ") != c.want && c.want != "*" || len(remarks) != c.remarks {
				t.Errorf("found %q, %q", got, remarks)
			}
			if err := Create(w.Dir, FileName, Starter(found, CachesFor(w.Dir), remarks, ""), false); err != nil {
				t.Fatal(err)
			}
			l := w.load()
			if len(l.Config.Presets) != len(found) || l.Config.Nesting {
				t.Errorf("got %+v", l.Config)
			}
			widens, err := l.Widens(usual)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range widens { // the agents' keys
				if !strings.HasPrefix(one, "env.pass = ") {
					t.Errorf("asks for %s", one)
				}
			}
			if err := Create(w.Dir, FileName, "", false); err == nil {
				t.Error("it was overwritten")
			}
			if err := Create(w.Dir, FileName, "", true); err != nil {
				t.Error(err)
			}
		})
	}
}

// The commented lines of the starter are valid too.
func TestStarterComments(t *testing.T) {
	var b strings.Builder
	for line := range strings.Lines(starter) {
		if text, ok := strings.CutPrefix(line, "# "); ok && (strings.HasPrefix(text, "[") || strings.Contains(text, " = ")) {
			line = text
		}
		b.WriteString(line)
	}
	w := newWorld(t)
	w.write("coffer.toml", b.String())
	c := w.load().Config
	if c.Limits.Memory == "" || len(c.Network.Rules) != 1 || len(c.Mounts) != 1 || len(c.Env.Pass) != 1 || len(c.Network.HostPorts) != 1 {
		t.Errorf("%s\ngave %+v", b.String(), c)
	}
}

// What the starter says holds without it, so it asks nothing of users who allow less.
func TestStarterAsksForNothing(t *testing.T) {
	w := newWorld(t)
	w.write(w.User, "[network]\nmode = \"none\"\n[workspace]\nmode = \"cow\"\n")
	w.write(FileName, Starter(nil, nil, nil, ""))
	l := w.load()
	if widens, err := l.Widens(usual); err != nil || len(widens) != 0 {
		t.Errorf("asks for %q, %v", widens, err)
	}
	if c := l.Config; c.Network.Mode != "none" || c.Workspace.Mode != "cow" {
		t.Errorf("took the user's word back: %+v", c)
	}
}

// A file is not written through a link.
func TestCreateLink(t *testing.T) {
	w := newWorld(t)
	victim := filepath.Join(w.Home, "victim")
	w.write(victim, "mine")
	if err := os.Symlink("../victim", filepath.Join(w.Dir, FileName)); err != nil {
		t.Fatal(err)
	}
	if err := Create(w.Dir, FileName, "x", false); err == nil {
		t.Error("written")
	}
	if err := Create(w.Dir, FileName, "x", true); err != nil {
		t.Error(err)
	}
	if data, _ := os.ReadFile(victim); string(data) != "mine" {
		t.Errorf("the victim is %q", data)
	}
}

func TestExclude(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.Dir, ".git/info/exclude")
	for _, before := range []string{"", "*.o", "*.o\n"} {
		w.write(file, before)
		for i := range 2 {
			added, err := Exclude(w.Dir)
			if err != nil || added != (i == 0) {
				t.Fatal(added, err)
			}
		}
		data, err := os.ReadFile(file)
		if want := strings.TrimSuffix(before, "\n"); want != "" {
			want += "\n"
			if string(data) != want+"/coffer.local.toml\n" {
				t.Errorf("%q became %q", before, data)
			}
		} else if err != nil || string(data) != "/coffer.local.toml\n" {
			t.Errorf("%q became %q, %v", before, data, err)
		}
	}
	// Links lead elsewhere.
	victim := filepath.Join(w.Home, "victim")
	w.write(victim, "mine")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../../victim", file); err != nil {
		t.Fatal(err)
	}
	if _, err := Exclude(w.Dir); err == nil {
		t.Error("a link was followed")
	}
	if data, _ := os.ReadFile(victim); string(data) != "mine" {
		t.Errorf("the victim is %q", data)
	}
}

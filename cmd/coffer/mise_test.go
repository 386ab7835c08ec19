package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestNamesTools(t *testing.T) {
	for name, want := range map[string]bool{
		"mise.toml": true, ".mise.toml": true, ".tool-versions": true, "mise/config.toml": true, ".config/mise.toml": true,
		"mise": false, "src/mise.toml": false, "tool-versions": false,
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := namesTools(dir); got != want {
			t.Errorf("with %s: %v", name, got)
		}
	}
	if namesTools("") {
		t.Error("no directory names tools")
	}
}

func TestMiseData(t *testing.T) {
	for _, c := range []struct{ data, xdg, want string }{
		{"", "", "/home/me/.local/share/mise"},
		{"", "/xdg", "/xdg/mise"},
		{"/data/", "/xdg", "/data"},
		{"relative", "relative", "/home/me/.local/share/mise"},
	} {
		t.Setenv("MISE_DATA_DIR", c.data)
		t.Setenv("XDG_DATA_HOME", c.xdg)
		if got := miseData("/home/me"); got != c.want {
			t.Errorf("%q, %q: %s, want %s", c.data, c.xdg, got, c.want)
		}
	}
}

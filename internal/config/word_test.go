package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// link makes a symbolic link, with the directories above it.
func (w *world) link(to, path string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Symlink(to, path); err != nil {
		w.t.Fatal(err)
	}
}

// Whoever writes to one of these places writes the user's word, now or later.
func TestHolds(t *testing.T) {
	for name, c := range map[string]struct {
		set       func(w *world)
		yes, no   string // below the home
		alsoMount bool
	}{
		"nothing is there yet": {func(*world) {}, ". .config .config/coffer .local .local/state .local/state/coffer .local/state/coffer/trust",
			"repo project .local/share .config/other .configs .local/statement", true},
		"all is there": {func(w *world) {
			w.write(w.User, "")
			w.write(filepath.Join(w.Presets, "p.toml"), "")
			w.write(filepath.Join(w.Trust, "x.json"), "")
		}, ". .. .config .config/coffer .config/coffer/config.toml .config/coffer/presets .local .local/state/coffer/trust",
			"repo .local/share .config/nvim", true},
		"the directory is a link": {func(w *world) {
			w.write(filepath.Join(w.Home, "dotfiles/coffer/config.toml"), "")
			w.link("../dotfiles/coffer", filepath.Join(w.Home, ".config/coffer"))
		}, ".config dotfiles dotfiles/coffer", "dotfiles/nvim", true},
		"the file is a link": {func(w *world) {
			w.write(filepath.Join(w.Home, "dotfiles/c.toml"), "")
			w.link(filepath.Join(w.Home, "dotfiles/c.toml"), w.User)
		}, ".config dotfiles dotfiles/c.toml", "dotfiles/other", true},
		"a link to a link": {func(w *world) {
			w.write(filepath.Join(w.Home, "b/c.toml"), "")
			w.link("../b/c.toml", filepath.Join(w.Home, "a/c.toml"))
			w.link("../../a/c.toml", w.User)
		}, "a b", "c", true},
		"a link to nowhere": {func(w *world) {
			w.write(filepath.Join(w.Home, "dotfiles/x"), "")
			w.link("dotfiles/config", filepath.Join(w.Home, ".config"))
		}, "dotfiles dotfiles/config", "dotfiles/other", true},
		"a link in the middle": {func(w *world) {
			w.write(filepath.Join(w.Home, "disk/state/x"), "")
			w.link("../disk/state", filepath.Join(w.Home, ".local/state"))
		}, "disk disk/state .local", "disk/other .local/share", true},
		"one preset is a link": {func(w *world) {
			w.write(filepath.Join(w.Home, "dotfiles/p.toml"), "")
			w.link("../../../dotfiles/p.toml", filepath.Join(w.Presets, "p.toml"))
		}, "dotfiles dotfiles/p.toml", "dotfiles/q.toml", true},
		"a variable names others": {func(w *world) {
			w.User, w.Presets = filepath.Join(w.Home, "etc/config.toml"), filepath.Join(w.Home, "etc/presets")
			w.Trust = filepath.Join(w.Home, "var/trust")
		}, "etc var .config .local/state", "repo", false},
		"links in a circle": {func(w *world) {
			w.link("b", filepath.Join(w.Home, "a"))
			w.link("a", filepath.Join(w.Home, "b"))
			w.link("../a", filepath.Join(w.Home, ".config/coffer"))
		}, ".config", "repo", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.set(w)
			for _, dir := range strings.Fields(c.yes) {
				path := filepath.Join(w.Home, dir)
				if w.Holds(path) == "" {
					t.Errorf("%s does not count", dir)
				}
				if !c.alsoMount {
					continue
				}
				l := Loaded{places: w.Places, Repository: w.Dir}
				one := mount{}
				one.Source, one.Target = path, "/x"
				if err := l.allowed(one); err == nil {
					t.Errorf("%s can be mounted writable", dir)
				}
			}
			for _, dir := range strings.Fields(c.no) {
				if file := w.Holds(filepath.Join(w.Home, dir)); file != "" {
					t.Errorf("%s counts, for %s", dir, file)
				}
			}
		})
	}
	w := newWorld(t)
	if w.Holds(filepath.Dir(w.Floor)) != w.Floor {
		t.Error("the administrator's directory does not count")
	}
	if w.Holds("/") == "" || w.Holds("") != "" {
		t.Error("the root does not count, or nothing does")
	}
	// A second name of the same file.
	w.write(w.User, "")
	second := filepath.Join(w.Home, "second")
	if err := os.Link(w.User, second); err != nil {
		t.Fatal(err)
	}
	if w.Holds(second) != w.User {
		t.Error("a hard link does not count")
	}
}

// What is only read may be linked settings, too.
func TestReadOnlyMountOfDotfiles(t *testing.T) {
	w := newWorld(t)
	w.write(filepath.Join(w.Home, "dotfiles/c.toml"), "")
	w.link(filepath.Join(w.Home, "dotfiles/c.toml"), w.User)
	for text, want := range map[string]bool{"": true, "read_only = false": false} {
		w.write("coffer.toml", "[mounts.m]\nsource = \"~/dotfiles\"\ntarget = \"/m\"\n"+text)
		if _, err := w.load().Mounts(nil, true); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Which changes are changes of the user's word.
func TestTouches(t *testing.T) {
	w := newWorld(t)
	w.write(filepath.Join(w.Home, "dotfiles/coffer/config.toml"), "")
	w.link("../dotfiles/coffer", filepath.Join(w.Home, ".config/coffer"))
	for path, want := range map[string]bool{
		".config": true, ".config/coffer": true, "dotfiles": true, "dotfiles/coffer": true,
		"dotfiles/coffer/config.toml": true, "dotfiles/coffer/presets/new.toml": true, "dotfiles/coffer/presets": true,
		".local/state/coffer/trust/x.json": true, ".local/state": true,
		"dotfiles/vimrc": false, "dotfiles/coffer/notes": false, ".config/nvim": false, ".local/state/other": false,
	} {
		if got := w.Touches(filepath.Join(w.Home, path)); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// A yes that is a link could be anybody's.
func TestTrustFollowsNoLink(t *testing.T) {
	w := newWorld(t)
	w.write("coffer.toml", "nesting = true")
	store, l := Trust{w.Trust}, w.load()
	if err := store.Add(l, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if ok, err := store.Has(l, []string{"a"}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	file := filepath.Join(w.Trust, grantName(l.Repository, l.asked))
	if err := os.Rename(file, filepath.Join(w.Dir, "yes")); err != nil {
		t.Fatal(err)
	}
	w.link(filepath.Join(w.Dir, "yes"), file)
	if ok, err := store.Has(l, []string{"a"}); ok || err == nil {
		t.Errorf("a link counts: %v, %v", ok, err)
	}
}

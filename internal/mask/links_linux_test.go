package mask

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWatchLinks: whatever other name a hidden file gets or has, it is hidden by it.
func TestWatchLinks(t *testing.T) {
	for _, shared := range []bool{false, true} {
		dir, out := t.TempDir(), t.TempDir()
		at := func(name string) string { return filepath.Join(dir, name) }
		link := func(from, to string) { t.Helper(); must(t, os.Link(at(from), at(to))) }
		plant(t, dir, map[string]string{".env": "x", "a/b/": "", "node_modules/x/": "", "plain": "y", "mover": "z"})
		h := watching(t, dir, shared)
		h.wants(".env")
		link(".env", "one")
		link(".env", "a/b/two")
		h.wants("one", "a/b/two")
		// By another name than the first, and again after it was gone.
		link("one", "a/three")
		h.wants("a/three")
		must(t, os.Remove(at("one")))
		link(".env", "one")
		h.wants("one")
		// In a directory that comes with it.
		must(t, os.Mkdir(filepath.Join(out, "d"), 0o755))
		if err := os.Link(at(".env"), filepath.Join(out, "d/four")); err != nil {
			t.Fatal(err)
		}
		must(t, os.Rename(filepath.Join(out, "d"), at("d")))
		h.wants("d/four")
		// A file that is seen gets a name that is hidden, wherever its other names are.
		link("plain", "node_modules/x/plain")
		link("plain", "plain.key")
		h.wants("plain.key", "plain", "node_modules/x/plain")
		// One that is renamed stays hidden.
		plant(t, dir, map[string]string{"z.key": "z"})
		h.wants("z.key")
		must(t, os.Rename(at("z.key"), at("a/z")))
		h.wants("a/z")
		// Others do not get hidden by this.
		link("mover", "moved")
		h.silent(dir, "mark.key", "mover", "moved", "a", "d")
	}
}

// TestWatchTrap: names of a file that is left alone, because it gives nothing away, are hidden
// when it does.
func TestWatchTrap(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	plant(t, dir, map[string]string{"first.key": "x", "node_modules/": "", "sub/": ""})
	h := watching(t, dir, true)
	h.wants("first.key")
	plant(t, dir, map[string]string{".env": ""})
	must(t, os.Link(at(".env"), at("sub/trap")))
	must(t, os.Link(at(".env"), at("node_modules/trap")))
	h.silent(dir, "1.key", ".env", "sub/trap", "node_modules/trap")
	plant(t, dir, map[string]string{".env": "SECRET"})
	h.wants(".env", "sub/trap", "node_modules/trap")

	// A file is no template for itself,
	plant(t, dir, map[string]string{"sub/.env": ""})
	must(t, os.Link(at("sub/.env"), at("sub/.env.example")))
	h.silent(dir, "2.key", "sub/.env", "sub/.env.example")
	plant(t, dir, map[string]string{"sub/.env": "SECRET"})
	h.wants("sub/.env", "sub/.env.example")

	// and a directory below a git directory is looked into if a link leads there, too.
	plant(t, dir, map[string]string{"x/.git/conf/": ""})
	plant(t, dir, map[string]string{"conf": "-> x/.git/conf"})
	h.silent(dir, "3.key", "conf")
	plant(t, dir, map[string]string{"conf/.env": "SECRET"})
	h.wants("x/.git/conf/.env")
}

// TestWatchBehind: what appears behind a hidden symbolic link is hidden, and so is what takes
// its place.
func TestWatchBehind(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	plant(t, dir, map[string]string{".env": "-> deep/real", "x.key": "-> there", "there": "x"})
	h := watching(t, dir, true)
	h.wants("x.key", ".env", "there")
	plant(t, dir, map[string]string{"deep/real": "SECRET"})
	h.wants("deep/real")
	plant(t, dir, map[string]string{"other": "SECRET"})
	must(t, os.Rename(at("other"), at("there")))
	h.wants("there")
	must(t, os.Rename(at("deep"), at("moved")))
	plant(t, dir, map[string]string{"another/real": "SECRET"})
	must(t, os.Rename(at("another"), at("deep")))
	h.wants("deep/real")
	h.silent(dir, "mark.key", "other", "deep", "another")
}

// TestWatchMoved: what appears in a directory that was renamed is told under its old names, too,
// if the tree is not shared.
func TestWatchMoved(t *testing.T) {
	for _, shared := range []bool{true, false} {
		dir := t.TempDir()
		plant(t, dir, map[string]string{"first.key": "x", "old/sub/": ""})
		h := watching(t, dir, shared)
		h.wants("first.key")
		must(t, os.Rename(filepath.Join(dir, "old"), filepath.Join(dir, "new")))
		must(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "newer")))
		plant(t, dir, map[string]string{"mark.key": "x"})
		h.wants("mark.key")
		plant(t, dir, map[string]string{"newer/.env": "x", "newer/sub/made/.env": "x"})
		if shared {
			h.silent(dir, "end.key", "old/.env", "old/sub/made/.env")
			continue
		}
		h.wants("newer/.env", "old/.env", "newer/sub/made/.env", "old/sub/made/.env")
	}
}

// TestWatchGone: of what goes is told, in a tree that is not shared.
func TestWatchGone(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"a.key": "x", "b.key": "x", ".aws/x": "x", "sub/": "", "sub/c.key": "x"})
	for _, shared := range []bool{true, false} {
		h := watching(t, dir, shared)
		h.wants("a.key", "sub/c.key")
		if shared {
			must(t, os.Remove(filepath.Join(dir, "sub/c.key")))
			h.silent(dir, "mark.key", "gone sub/c.key")
			plant(t, dir, map[string]string{"sub/c.key": "x"})
			continue
		}
		must(t, os.RemoveAll(filepath.Join(dir, "sub")))
		must(t, os.RemoveAll(filepath.Join(dir, ".aws")))
		must(t, os.Rename(filepath.Join(dir, "a.key"), filepath.Join(dir, "a")))
		h.wants("gone sub/c.key", "gone sub", "gone .aws", "gone a.key", "a")
	}
}

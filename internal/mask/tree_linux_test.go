package mask

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// plant makes files; a name that ends in a slash is a directory, and text that begins with
// -> a link.
func plant(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		if to, ok := strings.CutPrefix(text, "-> "); ok {
			must(t, os.Symlink(to, at))
		} else if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(at, 0o755))
		} else {
			must(t, os.WriteFile(at, []byte(text), 0o644))
		}
	}
}

func openTree(t testing.TB, dir string, wish ...Rule) *Tree {
	t.Helper()
	tree, err := Open(dir, NewSet(nil, wish, ""))
	must(t, err)
	t.Cleanup(tree.Close)
	return tree
}

func names(list []Found) (all []string) {
	for _, f := range list {
		all = append(all, f.Path)
	}
	return all
}

func TestScan(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	plant(t, out, map[string]string{"secret": "x"})
	plant(t, dir, map[string]string{
		".env": "x", "a/b/c/.env": "x", "a/.env.example": "x", ".aws/x": "x", ".aws/.env": "x", "node_modules/x/.env": "x", ".git/.env": "x",
		"a/.sandboxignore": "/b/only\n*.a\n!keep.a\n", "a/b/only": "x", "b/only": "x", "a/x.a": "", "a/keep.a": "", "x.a": "",
		"public.pem": "CERTIFICATE", "private.pem": "PRIVATE KEY", "k/.env": "-> ../real", "real": "x", "l/.env": "-> " + out + "/secret", "m/.env": "-> nowhere",
		"loop": "-> .", "n/.sandboxignore": "-> ../real", "vendor/x/.env": "x", "deep/.npmrc": "registry=x", "deep/er/.npmrc": "//x/:_authToken=x",
	})
	must(t, os.Link(filepath.Join(dir, ".env"), filepath.Join(dir, "b/linked")))
	must(t, os.Link(filepath.Join(dir, ".env"), filepath.Join(dir, "node_modules/x/linked")))
	must(t, os.Link(filepath.Join(dir, ".env"), filepath.Join(dir, "b/.env")))
	must(t, os.Mkdir(filepath.Join(dir, "closed"), 0))
	r, err := openTree(t, dir, rules(t, "vendor/x/.env", "!m/.env")...).Scan(context.Background())
	must(t, err)
	want := []string{
		".aws", ".env", "a/b/c/.env", "a/b/only", "a/x.a", "b/.env", "b/linked", "closed", "deep/er/.npmrc", "k/.env", "l/.env", "node_modules/x/linked", "private.pem", "real", "vendor/x/.env",
	}
	if os.Getuid() == 0 {
		want = slices.DeleteFunc(want, func(s string) bool { return s == "closed" }) // root looks into it
	}
	if got := names(r.Hidden); !slices.Equal(got, want) {
		t.Errorf("hidden\n%q, want\n%q", got, want)
	}
	if want := []string{"a"}; !slices.Equal(r.Rules, want) {
		t.Errorf("rules in %q, want %q", r.Rules, want)
	}
}

// TestScanMany goes through a tree that several share.
func TestScanMany(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{}
	for i := range 300 {
		files[fmt.Sprintf("d%d/e/f/.env", i)] = "x"
		files[fmt.Sprintf("d%d/g/", i)] = ""
	}
	plant(t, dir, files)
	r, err := openTree(t, dir).Scan(context.Background())
	must(t, err)
	if len(r.Hidden) != 300 {
		t.Errorf("found %d files", len(r.Hidden))
	}
}

func TestBounds(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"a/.sandboxignore": strings.Repeat("x", MaxFile+1)})
	if _, err := openTree(t, dir).Scan(context.Background()); err == nil {
		t.Error("a file of any size is read")
	}
	plant(t, dir, map[string]string{"a/.sandboxignore": strings.Repeat("x\n", MaxRules+1)})
	if _, err := openTree(t, dir).Scan(context.Background()); err == nil {
		t.Error("any number of rules is taken")
	}
}

// heard is what a watch has told.
type heard struct {
	t     *testing.T
	paths chan string
}

// wants waits until all of these were told, in any order.
func (h heard) wants(paths ...string) {
	h.t.Helper()
	for len(paths) > 0 {
		select {
		case p := <-h.paths:
			paths = slices.DeleteFunc(paths, func(s string) bool { return s == p })
		case <-time.After(time.Minute):
			h.t.Fatalf("%q were not told", paths)
		}
	}
}

// silent makes sure that these were not told before something that is told now. What was
// told before may be told again.
func (h heard) silent(dir, mark string, not ...string) {
	h.t.Helper()
	plant(h.t, dir, map[string]string{mark: "x"})
	for {
		select {
		case p := <-h.paths:
			if slices.Contains(not, p) {
				h.t.Errorf("%s was told", p)
			}
			if p == mark {
				return
			}
		case <-time.After(time.Minute):
			h.t.Fatalf("%s was not told", mark)
		}
	}
}

func watching(t *testing.T, dir string, shared bool) heard {
	tree := openTree(t, dir)
	_, err := tree.Scan(context.Background())
	must(t, err)
	h := heard{t: t, paths: make(chan string, 1000)}
	return h.watch(tree, shared)
}

func (h heard) watch(tree *Tree, shared bool) heard {
	t := h.t
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- tree.Watch(ctx, Watching{Shared: shared, Blind: func(s string) { h.paths <- "blind: " + s }, Told: func(list []Found) {
			for _, f := range list {
				h.paths <- f.Path
			}
		}})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return h
}

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"a/b/": "", "first/.env": "x", ".sandboxignore": "*.one\n", "x.two": "x", "a/x.three": "x"})
	h := watching(t, dir, false)
	h.wants("first/.env") // of the first look
	plant(t, dir, map[string]string{".env": "", "a/b/.env": "x"})
	h.wants(".env", "a/b/.env")
	plant(t, dir, map[string]string{"new/er/.env": "x", "new/.aws/x": "x"})
	h.wants("new/er/.env", "new/.aws")
	must(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "a/moved")))
	h.wants("a/moved/er/.env", "a/moved/.aws")
	plant(t, dir, map[string]string{"a/moved/er/.env.x": "x"})
	h.wants("a/moved/er/.env.x")
	plant(t, dir, map[string]string{".sandboxignore": "*.two\n"})
	h.wants("x.two")
	plant(t, dir, map[string]string{"a/.sandboxignore": "*.three\n", "y.one": "x"})
	h.wants("a/x.three", "y.one")
	plant(t, dir, map[string]string{"k.pem": "CERTIFICATE"})
	h.silent(dir, "k1.key", "k.pem")
	plant(t, dir, map[string]string{"k.pem": "PRIVATE KEY"})
	h.wants("k.pem")
}

// TestShared: in a tree that a sandbox shares, what gives nothing away is left alone.
func TestShared(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{".env.example": "A=1\n", "sub/.env.example": "B=1\n", "x.key.sample": "K\n", "first.key": "x"})
	h := watching(t, dir, true)
	h.wants("first.key")
	plant(t, dir, map[string]string{".env": "A=1\n", "empty.key": "", "sub/.env.local": "B=1\n", "x.key": "K\n"})
	h.silent(dir, "1.key", ".env", "empty.key", "sub/.env.local", "x.key")
	plant(t, dir, map[string]string{".env": "A=2\n"})
	h.wants(".env")
	plant(t, dir, map[string]string{"empty.key": "x"})
	h.wants("empty.key")
	plant(t, dir, map[string]string{"sub/.env": "A=1\n"}) // a template, but not one beside it
	h.wants("sub/.env")
}

// TestSlow: lines that are too hard for a whole tree are refused, and named.
func TestSlow(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"a/.sandboxignore": strings.Repeat(strings.Repeat("*a", 31)+"[b]\n", 900)}
	for i := range 2000 {
		files["a/"+strings.Repeat("a", 240)+fmt.Sprint(i)+"aaaa"] = ""
	}
	plant(t, dir, files)
	_, err := openTree(t, dir).Scan(context.Background())
	var slow *SlowError
	if !errors.As(err, &slow) || !strings.HasPrefix(slow.From, "a/.sandboxignore:") {
		t.Errorf("the look said %v", err)
	}
}

// TestDeep: directories further down than any path leads are hidden, and all above them
// are looked into.
func TestDeep(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{".env": "x"})
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	name := strings.Repeat("d", 200)
	for range 40 { // 8000 bytes
		must(t, unix.Mkdirat(at, name, 0o755))
		next, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, err)
		unix.Close(at)
		at = next
		fd, err := unix.Openat(at, ".env", unix.O_CREAT|unix.O_WRONLY, 0o644)
		must(t, err)
		unix.Close(fd)
	}
	unix.Close(at)
	r, err := openTree(t, dir).Scan(context.Background())
	must(t, err)
	last := r.Hidden[len(r.Hidden)-1]
	for _, f := range r.Hidden {
		if f.Dir {
			last = f
		}
	}
	if !last.Dir || len(last.Path) <= maxDeep || len(last.Path) > maxDeep+256 || len(r.Hidden) != strings.Count(last.Path, "/")+2 {
		t.Errorf("%d are hidden, the directory is %d bytes down", len(r.Hidden), len(last.Path))
	}
}

// TestBlind: of a tree that has more directories than can be watched, some are, and it is said which
// number to raise.
func TestBlind(t *testing.T) {
	was := maxWatches
	t.Cleanup(func() { maxWatches = was })
	maxWatches = func() int { return 2 }
	dir := t.TempDir()
	plant(t, dir, map[string]string{"a/": "", "b/": "", "c/": ""})
	h := watching(t, dir, false)
	h.wants("blind: " + dir + " has more directories than can be watched: files to hide that appear there are hidden when the next command starts; raise fs.inotify.max_user_watches")
	plant(t, dir, map[string]string{".env": "x"})
	h.wants(".env")
}

// TestRenamed: what appears in a directory that was renamed is told by its new name, and so is what
// appears below one that came from elsewhere.
func TestRenamed(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"a/b/": "", "first.key": "x"})
	h := watching(t, dir, false)
	h.wants("first.key")
	for _, move := range [][2]string{{"a", "c"}, {"c/b", "b"}, {"b", "c/d"}, {"c", "a"}} {
		must(t, os.Rename(filepath.Join(dir, move[0]), filepath.Join(dir, move[1])))
		h.silent(dir, move[1]+"/mark.key")
		must(t, os.Remove(filepath.Join(dir, move[1], "mark.key")))
	}
	plant(t, dir, map[string]string{"a/.env": "x", "a/d/.env": "x"})
	h.wants("a/.env", "a/d/.env")
}

// Of the watches that the kernel keeps for a user, half is left to others.
func TestFairShare(t *testing.T) {
	file := filepath.Join(t.TempDir(), "max")
	for text, want := range map[string]int{"": fewWatches, "8192\n": fewWatches, "192505\n": 96252, "9999999\n": manyWatches, "x": fewWatches} {
		must(t, os.WriteFile(file, []byte(text), 0o644))
		if got := fairShare(file); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if got := fairShare(file + "-"); got != fewWatches {
		t.Errorf("no file: %d", got)
	}
}

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// lab is a workspace with checkpoints.
type lab struct {
	t    *testing.T
	root string
	dir  string
	*Store
	texts map[string]string // contents of the commit
}

func newLab(t *testing.T, base map[string]string) *lab {
	l := &lab{t: t, root: t.TempDir(), dir: t.TempDir(), texts: map[string]string{}}
	m := Manifest{}
	for p, text := range base {
		l.write(p, text)
		id, err := Name("sha1", strings.NewReader(text), int64(len(text)), nil)
		if err != nil {
			t.Fatal(err)
		}
		m[p] = Item{Mode: Regular, ID: id}
		l.texts[id] = text
	}
	var err error
	if l.Store, err = Open(l.dir, "sha1", m); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lab) write(p, text string) {
	l.t.Helper()
	p = filepath.Join(l.root, p)
	os.MkdirAll(filepath.Dir(p), 0o755)
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) workspace() *Workspace {
	l.t.Helper()
	top, err := OpenDir(l.root)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(top.Close)
	return &Workspace{Top: top, Ignore: NewIgnore()}
}

func (l *lab) take(command string) *Checkpoint {
	l.t.Helper()
	c, err := l.Take(context.Background(), l.workspace(), Checkpoint{Command: command}, false)
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

func (l *lab) blob(id string, _ int64) ([]byte, int64, error) {
	text, ok := l.texts[id]
	if !ok {
		return nil, 0, errors.New("none")
	}
	return []byte(text), int64(len(text)), nil
}

func (l *lab) restore(n int) map[string]error {
	l.t.Helper()
	if _, _, err := l.Look(context.Background(), l.workspace()); err != nil {
		l.t.Fatal(err)
	}
	want, err := l.Manifest(n)
	if err != nil {
		l.t.Fatal(err)
	}
	failed, err := l.Restore(context.Background(), l.workspace(), l.Current(), want, l.blob)
	if err != nil {
		l.t.Fatal(err)
	}
	return failed
}

// state is all that is in the workspace.
func (l *lab) state() (all []string) {
	filepath.WalkDir(l.root, func(p string, d os.DirEntry, _ error) error {
		rel, _ := filepath.Rel(l.root, p)
		info, err := os.Lstat(p)
		if err != nil {
			l.t.Fatal(err)
		}
		switch {
		case info.Mode()&os.ModeSymlink != 0:
			target, _ := os.Readlink(p)
			all = append(all, rel+" -> "+target)
		case info.Mode().IsRegular():
			b, _ := os.ReadFile(p)
			all = append(all, fmt.Sprintf("%s %o %s", rel, info.Mode().Perm()&0o100, b))
		case rel != ".":
			all = append(all, rel+"/")
		}
		return nil
	})
	slices.Sort(all)
	return all
}

func TestThereAndBack(t *testing.T) {
	l := newLab(t, map[string]string{"a": "1", "dir/b": "2", "dir/c": "3", "gone": "4", ".gitignore": "*.o\n"})
	if err := l.Start(1, "", ""); err != nil {
		t.Fatal(err)
	}
	var states [][]string
	keep := func() { states = append(states, l.state()) }
	keep()
	if c := l.take("nothing"); c != nil {
		t.Fatalf("nothing changed, and a checkpoint was taken: %+v", c)
	}
	l.write("a", "changed")
	l.write("new/deep/file", "x")
	os.Remove(filepath.Join(l.root, "gone"))
	os.Chmod(filepath.Join(l.root, "dir/b"), 0o755)
	if c := l.take("first"); c == nil || c.N != 2 || c.Files != 4 {
		t.Fatalf("%+v", c)
	}
	keep()
	// A file becomes a directory, a directory a file, a file a link.
	os.Remove(filepath.Join(l.root, "a"))
	l.write("a/b", "deep")
	os.RemoveAll(filepath.Join(l.root, "new"))
	l.write("new", "flat")
	os.Remove(filepath.Join(l.root, "dir/c"))
	os.Symlink("b", filepath.Join(l.root, "dir/c"))
	l.write("odd\nname \xff", "y")
	if c := l.take("second"); c == nil || c.N != 3 {
		t.Fatalf("%+v", c)
	}
	keep()
	for _, n := range []int{1, 3, 2, 1, 2, 3} {
		if failed := l.restore(n); len(failed) > 0 {
			t.Fatalf("restore %d: %v", n, failed)
		}
		if got := l.state(); !slices.Equal(got, states[n-1]) {
			t.Errorf("restored %d:\ngot  %q\nwant %q", n, got, states[n-1])
		}
	}
	// Another process sees the same.
	l.Rest()
	again, err := Open(l.dir, "sha1", l.base)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := again.Take(t.Context(), l.workspace(), Checkpoint{}, false); c != nil || err != nil {
		t.Errorf("%+v, %v", c, err)
	}
}

// What git ignores is never touched, nor is what was not kept.
func TestLeftAlone(t *testing.T) {
	l := newLab(t, map[string]string{"a": "1", ".gitignore": "*.o\n"})
	l.Start(1, "", "")
	l.write("x.o", "built")
	l.write("d/y.o", "built")
	l.write("d/z", "kept")
	if err := os.Truncate(filepath.Join(l.root, "d/z"), maxFile+1); err != nil {
		t.Fatal(err)
	}
	c := l.take("large")
	if c == nil || c.Left != 1 || c.Files != 1 {
		t.Fatalf("%+v", c)
	}
	l.write("a", "2")
	l.take("more")
	if failed := l.restore(2); len(failed) > 0 {
		t.Fatal(failed)
	}
	if info, err := os.Stat(filepath.Join(l.root, "d/z")); err != nil || info.Size() != maxFile+1 {
		t.Errorf("%v", err)
	}
	for _, p := range []string{"x.o", "d/y.o"} {
		if b, _ := os.ReadFile(filepath.Join(l.root, p)); string(b) != "built" {
			t.Errorf("%s: %q", p, b)
		}
	}
}

// A program inside puts links where files are to be restored: nothing leaves the
// workspace. The control shows that a write which follows links would.
func TestLinksAreNotFollowed(t *testing.T) {
	l := newLab(t, map[string]string{"dir/file": "good", "top": "good"})
	l.Start(1, "", "")
	victim := t.TempDir()
	for _, name := range []string{"file", "top"} {
		if err := os.WriteFile(filepath.Join(victim, name), []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	is := Manifest{} // as if both had been removed, and then the links were made
	os.RemoveAll(filepath.Join(l.root, "dir"))
	os.Symlink(victim, filepath.Join(l.root, "dir"))
	os.Remove(filepath.Join(l.root, "top"))
	os.Symlink(filepath.Join(victim, "top"), filepath.Join(l.root, "top"))
	want, _ := l.Manifest(1)
	failed, err := l.Restore(t.Context(), l.workspace(), is, want, l.blob)
	if err != nil || failed["dir/file"] == nil {
		t.Errorf("%v, %v", failed, err)
	}
	if _, err := l.Restore(t.Context(), l.workspace(), want, is, l.blob); err != nil { // removal
		t.Error(err)
	}
	for _, name := range []string{"file", "top"} {
		if b, _ := os.ReadFile(filepath.Join(victim, name)); string(b) != "mine" {
			t.Errorf("%s of the victim: %q", name, b)
		}
	}
	os.WriteFile(filepath.Join(l.root, "dir/file"), []byte("control"), 0o644)
	if b, _ := os.ReadFile(filepath.Join(victim, "file")); string(b) != "control" {
		t.Error("the control did not work")
	}
}

// A pipe in the place of a file holds nobody up.
func TestPipe(t *testing.T) {
	l := newLab(t, map[string]string{"a": "1"})
	l.Start(1, "", "")
	os.Remove(filepath.Join(l.root, "a"))
	unix.Mkfifo(filepath.Join(l.root, "a"), 0o644)
	if c := l.take("pipe"); c == nil || c.Files != 1 {
		t.Fatalf("%+v", c)
	}
	if failed := l.restore(1); len(failed) > 0 {
		t.Fatal(failed)
	}
	if b, _ := os.ReadFile(filepath.Join(l.root, "a")); string(b) != "1" {
		t.Errorf("%q", b)
	}
}

// The first and the newest stay, the contents of others go.
func TestPrune(t *testing.T) {
	l := newLab(t, map[string]string{"a": "0"})
	l.Start(1, "", "")
	for i := range maxKept + slack + 5 {
		l.write("a", fmt.Sprint("content ", i))
		l.take(fmt.Sprint(i))
	}
	all := l.All()
	if len(all) > maxKept+slack || all[0].N != 1 || all[len(all)-1].N != maxKept+slack+6 {
		t.Errorf("%d checkpoints, from %d to %d", len(all), all[0].N, all[len(all)-1].N)
	}
	objects, _ := filepath.Glob(filepath.Join(l.Store.dir, "objects/*/*"))
	if len(objects) > len(all) {
		t.Errorf("%d objects for %d checkpoints", len(objects), len(all))
	}
	for _, c := range all {
		if failed := l.restore(c.N); len(failed) > 0 {
			t.Fatalf("%d: %v", c.N, failed)
		}
	}
}

func FuzzDelta(f *testing.F) {
	f.Add("100644 abc path\x000 - gone\x00")
	f.Fuzz(func(t *testing.T, text string) { _ = parseDelta(Manifest{}, text) })
}

// TestHidden: a file that the sandbox cannot see is in no checkpoint, and what the user
// does with it is not taken back.
func TestHidden(t *testing.T) {
	l := newLab(t, map[string]string{"a": "1", ".env": "committed"})
	if err := l.Start(1, "", ""); err != nil {
		t.Fatal(err)
	}
	w := l.workspace()
	w.Hidden = func(p string) bool { return strings.HasSuffix(p, ".env") }
	l.write("a", "2")
	l.write(".env", "secret")
	l.write("dir/.env", "another")
	if c, err := l.Take(t.Context(), w, Checkpoint{Command: "x"}, false); err != nil || c == nil || c.Files != 1 {
		t.Fatalf("got %+v, %v", c, err)
	}
	if all, err := l.readDelta(2); err != nil || len(all) != 1 {
		t.Errorf("kept %v, %v", all, err)
	}
	os.Remove(filepath.Join(l.root, "dir/.env"))
	want, err := l.Manifest(1)
	if err != nil {
		t.Fatal(err)
	}
	if failed, err := l.Restore(t.Context(), w, l.Current(), want, l.blob); len(failed) > 0 || err != nil {
		t.Errorf("%v, %v", failed, err)
	}
	if got := l.state(); !slices.Equal(got, []string{".env 0 secret", "a 0 1", "dir/"}) {
		t.Errorf("got %q", got)
	}
}

// TestPermissions: what is restored can be read by whom it could before.
func TestPermissions(t *testing.T) {
	l := newLab(t, map[string]string{"a": "1", "b": "1"})
	if err := l.Start(1, "", ""); err != nil {
		t.Fatal(err)
	}
	l.write("a", "2")
	l.write("b", "2")
	os.Chmod(filepath.Join(l.root, "a"), 0o600)
	l.take("x")
	l.restore(1)
	for name, want := range map[string]os.FileMode{"a": 0o600, "b": 0o644} {
		if info, err := os.Lstat(filepath.Join(l.root, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// TestThen: a store whose numbers come from another one finds what counted at each, says so
// when that was thrown away, and takes one again that was taken by somebody who was killed.
func TestThen(t *testing.T) {
	l := newLab(t, map[string]string{"a": "0"})
	if err := l.Start(3, "", ""); err != nil {
		t.Fatal(err)
	}
	takeAs := func(n int, content string) {
		t.Helper()
		l.write("a", content)
		if c, err := l.Take(t.Context(), l.workspace(), Checkpoint{N: n}, false); err != nil || c == nil || c.N != n {
			t.Fatalf("got %+v, %v", c, err)
		}
	}
	takeAs(5, "five")
	takeAs(8, "killed")
	takeAs(8, "eight")
	for n, want := range map[int]int{1: 3, 3: 3, 4: 3, 5: 5, 7: 5, 8: 8, 100: 8} {
		if c, ok := l.Then(n); !ok || c.N != want {
			t.Errorf("at %d: got %+v, %v, want %d", n, c, ok, want)
		}
	}
	l.restore(8)
	if b, _ := os.ReadFile(filepath.Join(l.root, "a")); string(b) != "eight" {
		t.Errorf("got %q", b)
	}
	for i := range maxKept + slack {
		takeAs(10+2*i, fmt.Sprint(i))
	}
	oldest := l.All()[1].N
	for n, want := range map[int]bool{3: true, 4: true, 5: false, 8: false, oldest - 1: false, oldest: true} {
		if _, ok := l.Then(n); ok != want {
			t.Errorf("at %d: got %v, want %v", n, ok, want)
		}
	}
}

// TestOpenRemoved: of a sandbox that is gone, nobody makes the folder again.
func TestOpenRemoved(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "abcdefgh")
	if _, err := Open(folder, "sha1", Manifest{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(folder); err == nil {
		t.Error("the folder is there")
	}
}

package gitbridge

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// plantRefs writes a git directory with a loose ref, a packed one, and one that is both.
func plantRefs(t testing.TB) (dir string, id func(string) string) {
	dir = t.TempDir()
	id = func(c string) string { return strings.Repeat(c, 40) }
	for name, text := range map[string]string{
		"refs/heads/main": id("1") + "\n", "refs/heads/coffer/box": id("2") + "\n", "refs/heads/coffer/box.lock": "",
		"packed-refs": "# pack-refs with: peeled fully-peeled sorted \n" + id("3") + " refs/heads/main\n" + id("4") + " refs/heads/old\n" +
			id("5") + " refs/tags/v1\n^" + id("6") + "\n",
	} {
		plant(t, filepath.Join(dir, name), text)
	}
	return dir, id
}

func plant(t testing.TB, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestHeads: branches are read from files, and nothing but files is read.
func TestHeads(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(dir string) error
		ok   bool
	}{
		{name: "as it is", ok: true},
		{name: "none packed", ok: true, do: func(dir string) error {
			plant(t, filepath.Join(dir, "refs/heads/old"), strings.Repeat("4", 40))
			return os.Remove(filepath.Join(dir, "packed-refs"))
		}},
		{name: "a name that is none", ok: true, do: func(dir string) error {
			plant(t, filepath.Join(dir, "refs/heads/a b"), strings.Repeat("7", 40))
			return nil
		}},
		{name: "another's name", do: func(dir string) error { plant(t, dir+"/refs/heads/sym", "ref: refs/heads/main\n"); return nil }},
		{name: "nothing", do: func(dir string) error { plant(t, dir+"/refs/heads/bad", ""); return nil }},
		{name: "zeros", do: func(dir string) error { plant(t, dir+"/refs/heads/bad", strings.Repeat("0", 40)); return nil }},
		{name: "too short", do: func(dir string) error { plant(t, dir+"/refs/heads/bad", "1234"); return nil }},
		{name: "too long", do: func(dir string) error { plant(t, dir+"/refs/heads/bad", strings.Repeat("1", 5000)); return nil }},
		{name: "a pipe", do: func(dir string) error { return syscall.Mkfifo(dir+"/refs/heads/pipe", 0o644) }},
		{name: "packed in a pipe", do: func(dir string) error {
			return errors.Join(os.Remove(dir+"/packed-refs"), syscall.Mkfifo(dir+"/packed-refs", 0o644))
		}},
		{name: "a link", do: func(dir string) error { return os.Symlink("main", dir+"/refs/heads/link") }},
		{name: "a link for a directory, which does not lead out", ok: true, do: func(dir string) error {
			return errors.Join(os.Rename(dir+"/refs/heads", dir+"/heads"), os.Symlink("../heads", dir+"/refs/heads"))
		}},
		{name: "a link that leads out", do: func(dir string) error {
			out := t.TempDir()
			return errors.Join(os.Rename(dir+"/refs/heads", out+"/heads"), os.Symlink(out+"/heads", dir+"/refs/heads"))
		}},
		{name: "packed by a link", do: func(dir string) error {
			return errors.Join(os.Rename(dir+"/packed-refs", dir+"/p"), os.Symlink("p", dir+"/packed-refs"))
		}},
		{name: "a reftable", do: func(dir string) error {
			return errors.Join(os.RemoveAll(dir+"/refs/heads"), os.WriteFile(dir+"/refs/heads", []byte("this repository uses the reftable format\n"), 0o644))
		}},
		{name: "many", do: func(dir string) error {
			for i := range maxGatheredRefs {
				plant(t, filepath.Join(dir, "refs/heads/many", strings.Repeat("x", i+1)), strings.Repeat("8", 40))
			}
			return nil
		}},
		{name: "many packed", do: func(dir string) error {
			text := ""
			for i := range maxGatheredRefs {
				text += strings.Repeat("8", 40) + " refs/heads/many/" + strings.Repeat("x", i+1) + "\n"
			}
			plant(t, dir+"/packed-refs", text)
			return nil
		}},
		{name: "many directories", do: func(dir string) error {
			for i := range maxGatheredRefs {
				if err := os.MkdirAll(filepath.Join(dir, "refs/heads/many", strings.Repeat("x", i+1), "y"), 0o755); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: "deep", do: func(dir string) error {
			return os.MkdirAll(filepath.Join(dir, "refs/heads", strings.Repeat("d/", maxDeep+2)), 0o755)
		}},
	} {
		dir, id := plantRefs(t)
		if c.do != nil {
			if err := c.do(dir); err != nil {
				t.Fatal(err)
			}
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		heads, err := plainHeads(root, 20)
		root.Close()
		if !c.ok {
			if err == nil {
				t.Errorf("%s: %v", c.name, heads)
			}
			continue
		}
		var got []string
		for _, h := range heads {
			got = append(got, h.Name+" "+h.ID)
		}
		slices.Sort(got)
		want := []string{"refs/heads/coffer/box " + id("2"), "refs/heads/main " + id("1"), "refs/heads/old " + id("4")}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

// Whatever is in the files, branches have names and ids that git would give them.
func FuzzHeads(f *testing.F) {
	f.Add(strings.Repeat("1", 40)+"\n", strings.Repeat("2", 40)+" refs/heads/x\n^"+strings.Repeat("3", 40)+"\n")
	f.Add("ref: refs/heads/x", "# pack-refs with: peeled \n")
	dir, _ := plantRefs(f)
	root, err := os.OpenRoot(dir)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { root.Close() })
	f.Fuzz(func(t *testing.T, one, packed string) {
		plant(t, dir+"/refs/heads/main", one)
		plant(t, dir+"/packed-refs", packed)
		heads, err := plainHeads(root, 20)
		if err != nil {
			return
		}
		for _, h := range heads {
			if !strings.HasPrefix(h.Name, "refs/heads/") || strings.Contains(h.Name, "..") || len(h.ID) != 40 || !isID(h.ID) {
				t.Fatalf("%q %q", h.Name, h.ID)
			}
		}
	})
}

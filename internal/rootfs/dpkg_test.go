package rootfs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestWriteOverrides(t *testing.T) {
	file := filepath.Join(t.TempDir(), "statoverride")
	if err := writeOverrides(file, []override{{"/usr/bin/a b", "root", "root", 0o4755}}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("root mail 2711 /usr/bin/c\nroot root 4755 /usr/bin/a b\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time nothing changes
		if err := writeOverrides(file, []override{{"/usr/bin/a b", "root", "root", 0o6755}, {"/usr/bin/d", "root", "root", 0o2755}}); err != nil {
			t.Fatal(err)
		}
		text, _ := os.ReadFile(file)
		if want := "root mail 711 /usr/bin/c\nroot root 755 /usr/bin/a b\nroot root 755 /usr/bin/d\n"; string(text) != want {
			t.Errorf("got %q, want %q", text, want)
		}
	}
	if err := os.WriteFile(file, []byte("root root many /usr/bin/c\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeOverrides(file, nil); err == nil {
		t.Error("a mode that is no number was accepted")
	}
}

func TestArchives(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.deb", "b.deb", "c.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a, b := filepath.Join(dir, "a.deb"), filepath.Join(dir, "b.deb")
	for _, c := range []struct{ args, want []string }{
		{[]string{"-i", a}, []string{a}},
		{[]string{"--status-fd", "20", "--unpack", "--recursive", dir}, []string{a, b}},
		{[]string{"--configure", "-a", dir}, nil},
		{[]string{"--root=/mnt", "-i", a}, nil},
		{nil, nil},
	} {
		if got := archives(c.args); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.args, got, c.want)
		}
	}
}

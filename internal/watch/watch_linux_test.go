package watch

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	os.Mkdir(sub, 0o755)
	file := filepath.Join(sub, "file")
	os.WriteFile(file, nil, 0o644)
	var w Watch
	if !w.Happened() {
		t.Error("who does not look knows nothing")
	}
	look := func() {
		w.Begin()
		for _, d := range []string{dir, sub} {
			f, err := os.Open(d)
			if err != nil {
				t.Fatal(err)
			}
			w.Add(int(f.Fd()))
			f.Close()
		}
		if w.Happened() {
			t.Error("nothing happened yet")
		}
	}
	look()
	for name, do := range map[string]func() error{
		"write":  func() error { return os.WriteFile(file, []byte("x"), 0o644) },
		"create": func() error { return os.WriteFile(filepath.Join(dir, "new"), nil, 0o644) },
		"mode":   func() error { return os.Chmod(file, 0o755) },
		"rename": func() error { return os.Rename(filepath.Join(dir, "new"), filepath.Join(sub, "new")) },
		"mkdir":  func() error { return os.MkdirAll(filepath.Join(sub, "d"), 0o755) },
	} {
		look()
		if err := do(); name != "rename" && err != nil {
			t.Fatal(err)
		} else if err != nil {
			continue // its file is not there yet
		}
		if first, again := w.Happened(), w.Happened(); !first || !again {
			t.Errorf("%s was not noticed", name)
		}
	}
	look()
	w.Close()
	if !w.Happened() {
		t.Error("closed")
	}
}

package mask

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestDirWatch(t *testing.T) {
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	os.Mkdir(sub, 0o755)
	file := filepath.Join(sub, "file")
	os.WriteFile(file, nil, 0o644)
	var w DirWatch
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

// TestWait: who waits is woken by an event, and by the end of the context.
func TestWait(t *testing.T) {
	dir := t.TempDir()
	var w DirWatch
	defer w.Close()
	begin := func() {
		w.Begin()
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		w.Add(int(f.Fd()))
	}
	for i := range 3 {
		begin()
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { defer close(over); w.Wait(ctx) }()
		cancel()
		<-over
		if w.Happened() {
			t.Fatal("nothing happened")
		}
		over = make(chan struct{})
		go func() { defer close(over); w.Wait(t.Context()) }()
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		<-over
		if !w.Happened() {
			t.Error("it was forgotten what woke us")
		}
	}
}

// TestMovedAway: directories that are moved away are not watched for ever.
func TestMovedAway(t *testing.T) {
	dir := t.TempDir()
	var w DirWatch
	defer w.Close()
	w.Begin()
	w.last = 2*maxDirs + 1 // so many were made since
	first := w.fd
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w.Add(int(f.Fd()))
	w.Begin()
	if os.Mkdir(filepath.Join(dir, "sub"), 0o755); w.drain() {
		t.Errorf("descriptor %d still has the old directories", first)
	}
	w.Add(int(f.Fd()))
	if w.last > 2 {
		t.Errorf("watch %d in a fresh list", w.last)
	}
}

package main

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cofferhq/coffer/internal/git"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// A run that ends while a repository is taken out of its sandbox holds the sandbox and waits for
// that, which must not wait for the run.
func TestUnincludeAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	lib := filepath.Join(dir, "lib")
	setup := exec.Command("sh", "-ec", `mkdir "$0" && cd "$0" && git init -q . && git -c user.name=a -c user.email=a@b commit -qm 1 --allow-empty; mkdir ../work`, lib)
	if out, err := setup.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	store, err := sandbox.Open(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	sb, lock, err := store.Create(sandbox.Record{Name: "once", Once: true, Workspace: sandbox.Workspace{Path: filepath.Join(dir, "work"), Mode: sandbox.WorkspaceCOW}})
	if err != nil {
		t.Fatal(err)
	}
	if err := include(t.Context(), store, sb, includeFlags{repo: lib}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- uninclude(t.Context(), sb, "lib", true, true) }()
	for range 200 { // until it is at it, as it most often is
		unlock, ok := git.TryLockIncluded(sb.Dir())
		if !ok {
			break
		}
		unlock()
		time.Sleep(time.Millisecond)
	}
	release, err := mayEnd(t.Context(), sb)
	if err != nil {
		t.Fatalf("the run could not end: %v", err)
	}
	lock.Release()
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

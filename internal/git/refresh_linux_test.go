package git

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// A program's start does not wait for a git that does not end.
func TestRefreshIsPatient(t *testing.T) {
	dir := t.TempDir()
	common, slow := filepath.Join(dir, "git"), filepath.Join(dir, "slow")
	for _, d := range []string{"reftable", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(common, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(slow, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	was := find
	var asked atomic.Bool
	find = func() string { asked.Store(true); return slow }
	t.Cleanup(func() { find = was })
	b := &Bridge{State: State{Common: common}, dir: dir}
	ended := make(chan error, 2)
	go func() { ended <- b.Refresh(context.Background()) }()
	go func() { ended <- b.Refresh(context.Background()) }()
	for range 2 {
		select {
		case err := <-ended:
			if err == nil { // because it was not waited for, or, on a machine that stands still, because git was ended
				t.Error("there is nothing to be read")
			}
		case <-time.After(time.Minute):
			t.Fatal("it waits for git")
		}
	}
	if !asked.Load() {
		t.Error("git was not asked, so this proves nothing")
	}
	b.shown.stamp = stampRefs(common)
	if err := b.Refresh(context.Background()); err != nil {
		t.Errorf("nothing has moved: %v", err)
	}
}

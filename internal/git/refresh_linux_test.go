package git

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// A program's start does not wait for a git that does not end, nor for who waits for one; and
// that git is ended.
func TestRefreshMovedIsPatient(t *testing.T) {
	dir := t.TempDir()
	common, slow := filepath.Join(dir, "git"), filepath.Join(dir, "slow")
	// Refs in a reftable are read by git.
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
	patient := patienceRefs
	patienceRefs = 2 * patienceMoved
	t.Cleanup(func() { patienceRefs = patient })

	b := &Bridge{State: State{Common: common}, dir: dir}
	ended := make(chan error, 2)
	go func() { ended <- b.RefreshMoved(context.Background()) }()
	go func() { ended <- b.RefreshMoved(context.Background()) }()
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
	// Who reads them next gets the lock when the slow one is gone.
	b.showing.Lock()
	b.refPlaces = refPlaces(common, nil)
	b.refStamp, _ = b.stamp()
	b.showing.Unlock()
	if err := b.RefreshMoved(context.Background()); err != nil {
		t.Errorf("nothing has moved: %v", err)
	}
}

package git

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Of what is left of included repositories, only that is removed of which it is known that it is
// a rest. A record that cannot be read may be that of a worktree with somebody's work.
func TestLockIncluded(t *testing.T) {
	folder := t.TempDir()
	for name, record := range map[string]string{
		"whole":   `{"include": "whole", "admin": "/nowhere/worktrees/whole"}`,
		".gone-x": `{"include": "x", "admin": "/nowhere/worktrees/x", "common": "/nowhere"}`,
		"begun":   `{"include": "begun", "common": "/nowhere"}`,
		"empty":   "",
		"damaged": "{",
	} {
		dir := filepath.Join(folder, includeName, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if record == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, stateName), []byte(record), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var purged []string
	unlock, err := LockIncluded(context.Background(), folder, func(dir string) error {
		purged = append(purged, filepath.Base(dir))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if want := []string{".gone-x", "begun", "empty"}; !slices.Equal(purged, want) {
		t.Errorf("%q are removed, not %q", purged, want)
	}
}

// TestHoldRemoved: who waited for a sandbox that was removed meanwhile is told so, and does not
// make its folder again.
func TestHoldRemoved(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "abcdefgh")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	release, err := HoldIncluded(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() {
		_, err := LockIncluded(t.Context(), folder, os.RemoveAll)
		got <- err
	}()
	if err := os.Rename(folder, filepath.Join(dir, ".gone-abcdefgh")); err != nil {
		t.Fatal(err)
	}
	release()
	if err := <-got; !errors.Is(err, ErrRemoved) {
		t.Errorf("got %v", err)
	}
	if _, err := HoldIncluded(t.Context(), folder); !errors.Is(err, ErrRemoved) {
		t.Errorf("of one that is gone: %v", err)
	}
}

// TestHoldGivenUp: LockIncluded waits for the lock only as long as its context lasts.
func TestHoldGivenUp(t *testing.T) {
	folder := t.TempDir()
	release, err := HoldIncluded(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("given up")
	ctx, cancel := context.WithCancelCause(t.Context())
	got := make(chan error)
	go func() {
		_, err := LockIncluded(ctx, folder, os.RemoveAll)
		got <- err
	}()
	cancel(why)
	if err := <-got; !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	release()
}

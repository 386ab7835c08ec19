package gitbridge

import (
	"context"
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

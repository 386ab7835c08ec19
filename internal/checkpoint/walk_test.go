package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cofferhq/coffer/internal/checkpoint"
)

// TestOneDirectoryEndsInTime: who waits no longer does not wait for the rest of a
// directory either, however much a program put into one.
func TestOneDirectoryEndsInTime(t *testing.T) {
	dir := t.TempDir()
	for i := range 50 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	visited := 0
	err := checkpoint.Walk{Visit: func(*checkpoint.Dir, string, checkpoint.Entry) error {
		visited++
		cancel()
		return nil
	}}.Do(ctx, dir)
	if !errors.Is(err, context.Canceled) || visited != 1 {
		t.Errorf("visited %d, %v; want one and word that it was cancelled", visited, err)
	}
}

package hidden

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cofferhq/coffer/internal/mask"
)

// TestMasksFull: files that were hidden and are gone do not count as hidden.
func TestMasksFull(t *testing.T) {
	dir := t.TempDir()
	root, err := mask.Open(dir, mask.NewSet(nil, nil, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	f := &Files{trees: []*tree{{Tree: root, at: dir}}, known: map[string]File{}}
	add := func(prefix string, n int, there bool) {
		for i := range n {
			path := filepath.Join(dir, fmt.Sprintf("%s%d.key", prefix, i))
			f.known[path] = File{Path: path}
			if there {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	add("gone", mask.MaxHidden, false)
	add("there", 10, true)
	if f.full() {
		t.Error("files that are gone count")
	}
	if len(f.known) != 10 {
		t.Errorf("%d are known", len(f.known))
	}
	add("more", mask.MaxHidden, true)
	if !f.full() {
		t.Error("there is no end to it")
	}
}

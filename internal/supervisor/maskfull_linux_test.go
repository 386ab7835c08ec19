package supervisor

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
	tree, err := mask.Open(dir, mask.NewSet(nil, nil, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	m := &masks{shown: []*shown{{tree: tree, at: dir}}, hidden: map[string]Hidden{}}
	add := func(prefix string, n int, there bool) {
		for i := range n {
			path := filepath.Join(dir, fmt.Sprintf("%s%d.key", prefix, i))
			m.hidden[path] = Hidden{Path: path}
			if there {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	add("gone", mask.MaxHidden, false)
	add("there", 10, true)
	if m.full() {
		t.Error("files that are gone count")
	}
	if len(m.hidden) != 10 {
		t.Errorf("%d are known", len(m.hidden))
	}
	add("more", mask.MaxHidden, true)
	if !m.full() {
		t.Error("there is no end to it")
	}
}

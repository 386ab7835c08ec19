package mask

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkScan looks through a repository of ten thousand files in a thousand directories.
func BenchmarkScan(b *testing.B) {
	dir := b.TempDir()
	for i := range 1000 {
		at := filepath.Join(dir, fmt.Sprintf("pkg%d/sub%d", i%40, i))
		must(b, os.MkdirAll(at, 0o755))
		for j := range 10 {
			must(b, os.WriteFile(filepath.Join(at, fmt.Sprintf("file%d.go", j)), nil, 0o644))
		}
	}
	for b.Loop() {
		t, err := Open(dir, NewSet(nil, nil, ""))
		must(b, err)
		_, err = t.Scan(context.Background())
		must(b, err)
		t.Close()
	}
}

func BenchmarkNewSet(b *testing.B) {
	for b.Loop() {
		NewSet(nil, nil, "")
	}
}

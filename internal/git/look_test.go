package git

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestLookIsBounded: a sandbox makes as many refs as it likes, several times a second they
// are looked at, and the memory for that is not the sandbox's.
func TestLookIsBounded(t *testing.T) {
	b := &Bridge{dir: t.TempDir()}
	heads := filepath.Join(string(b.private()), "refs/heads")
	if err := os.MkdirAll(filepath.Join(heads, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	note := func(name string) {
		if err := os.WriteFile(filepath.Join(heads, name), []byte("x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	note("a/b/c")
	was := b.Glance()
	if !strings.Contains(was, `"refs/heads/a/b/c"`) || was != b.Glance() {
		t.Fatalf("not all is seen, or not twice the same:\n%s", was)
	}
	note("a/d")
	if b.Glance() == was {
		t.Error("a new ref is not seen")
	}
	for i := range 10 * maxLook {
		note(fmt.Sprintf("%0100d", i))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	lines := strings.Count(b.Glance(), "\n")
	runtime.ReadMemStats(&after)
	if lines > 2*maxLook {
		t.Errorf("%d were looked at", lines)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 12<<20 {
		t.Errorf("it took %d bytes to look", used)
	}
}

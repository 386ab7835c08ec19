package gitbridge

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A small pack that a fetch left becomes loose objects, and none of them is lost. One that
// is large, or that somebody keeps, stays.
func TestTidy(t *testing.T) {
	for _, c := range []struct {
		name    string
		commits int
		bytes   int // of a file in each
		keep    bool
		stays   bool
	}{
		{"small", 3, 10, false, false},
		{"large", maxLoose, 0, false, true},
		{"kept", 3, 10, true, true},
		{"inflates", 3, maxLooseBytes / 3, false, true}, // to a little too much, from a few bytes
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			git := func(args ...string) string {
				t.Helper()
				cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"}, args...)...)
				cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("git %q: %v\n%s", args, err, out)
				}
				return strings.TrimSpace(string(out))
			}
			git("init", "-q")
			git("commit", "-q", "--allow-empty", "-m", "first")
			b := &Bridge{State: State{Common: filepath.Join(dir, ".git"), Objects: []string{filepath.Join(dir, ".git/objects")}}}
			before := b.packs()
			var orders strings.Builder
			for i := range c.commits {
				fmt.Fprintf(&orders, "commit refs/heads/x\ncommitter a <a@b> %d +0000\ndata 2\nx\n\n", i+1)
				if c.bytes > 0 {
					fmt.Fprintf(&orders, "M 644 inline file\ndata %d\n%s%08d\n", c.bytes, strings.Repeat("x", c.bytes-8), i)
				}
			}
			load := exec.Command("git", "-C", dir, "-c", "fastimport.unpackLimit=1", "fast-import", "--quiet")
			load.Stdin = strings.NewReader(orders.String())
			if out, err := load.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			fresh := b.packs()
			if len(fresh) != 1 {
				t.Fatalf("there are %d packs", len(fresh))
			}
			stem := strings.TrimSuffix(filepath.Join(b.Objects[0], "pack", fresh[0]), ".pack")
			if c.keep {
				if err := os.WriteFile(stem+".keep", nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			b.noteNew(before)
			b.Tidy(context.Background())
			if stays := len(b.packs()) == 1; stays != c.stays {
				t.Errorf("the pack stays: %v, want %v", stays, c.stays)
			}
			if _, err := os.Stat(stem + ".idx"); (err == nil) != c.stays {
				t.Errorf("its index: %v", err)
			}
			if got := git("rev-list", "--count", "x"); got != fmt.Sprint(c.commits) {
				t.Errorf("%s of %d commits are there", got, c.commits)
			}
			git("fsck", "--strict")
			left, _ := filepath.Glob(filepath.Join(b.Objects[0], "tmp_*"))
			if len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

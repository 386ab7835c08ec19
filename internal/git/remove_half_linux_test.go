package git

import (
	"os"
	"path/filepath"
	"testing"
)

// TestForgetHalf: a git that was killed leaves a worktree's directory that does not say whose
// it is. It goes with the sandbox; one that is somebody else's stays.
func TestForgetHalf(t *testing.T) {
	common := t.TempDir()
	s := State{ID: "abcdefgh", Common: common, Tree: filepath.Join(common, "elsewhere", "box")}
	admin := filepath.Join(common, "worktrees", "box")
	for name, back := range map[string]string{"locked": "", "gitdir": "/somewhere/box/.git\n"} {
		if err := os.MkdirAll(admin, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(admin, name), []byte(back), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.forgetAdmin(); err != nil {
			t.Fatal(err)
		}
		if stays := name == "gitdir"; exists(admin) != stays {
			t.Errorf("with a file %s: there is one still: %v", name, !stays)
		}
		os.RemoveAll(admin)
	}
}

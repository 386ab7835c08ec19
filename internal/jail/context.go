package jail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// Resolve turns a place that the user named into a path without symbolic links. It must
// exist: for one that does not, nothing else is a substitute, least of all its parent.
func Resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return "", ui.Error(fmt.Sprintf("%s does not exist", abs), "check the spelling, or make it first")
	}
	if err != nil {
		return "", fmt.Errorf("find %s: %w", abs, err)
	}
	return real, nil
}

// CheckContext says what is wrong with a directory, without symbolic links in its path,
// as a context.
func CheckContext(dir, home string) error {
	if why := tooMuch(dir, home); why != "" {
		return ui.Error(fmt.Sprintf("%s cannot be a context: %s", dir, why), "choose a project's directory with -C")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return ui.Error(fmt.Sprintf("%s is not a directory", dir), "choose a project's directory with -C")
	}
	if rootfs.IsGitDir(dir) {
		return ui.Error(fmt.Sprintf("%s is itself a git directory, whose config and hooks a program could change", dir), "choose a worktree of it with -C")
	}
	return nil
}

// tooMuch says why nobody may be given a place to write to, or nothing.
func tooMuch(path, home string) string {
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	switch {
	case path == "/":
		return "it is the whole machine"
	case path == home:
		return "it is your home, with all your keys"
	case safepath.Within(home, path):
		return "your home is in it"
	}
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run", "/tmp"} {
		if path == dir {
			return "it belongs to the system"
		}
	}
	return ""
}

// ContextRoot is the innermost of some directories that dir is in, or dir. They are
// compared by whole components: /a/bc is not in /a/b. Roots that do not exist are none.
func ContextRoot(dir string, roots []string) string {
	best := ""
	for _, r := range roots {
		if !filepath.IsAbs(r) {
			continue // relative to what?
		}
		real, err := filepath.EvalSymlinks(r)
		if err != nil || dir != real && !safepath.Within(dir, real) {
			continue
		}
		if best == "" || strings.Count(real, "/") > strings.Count(best, "/") {
			best = real
		}
	}
	if best == "" {
		return dir
	}
	return best
}

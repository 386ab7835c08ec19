package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/safepath"
)

// The tool store has a directory for each agent that was installed by us:
//
//	claude/2.1.0/node_modules/…
//	claude/current → 2.1.0
//
// Sandboxes see it read-only. It is filled by npm in a sandbox of its own, which can
// write to nothing else.

const current = "current"

// Stage makes the directory that npm is to install to. The second result removes it.
func Stage(tools string, a *Agent) (string, func(), error) {
	parent := filepath.Join(tools, a.Name)
	if err := safepath.Directory(parent, 0o755); err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp(parent, ".new-")
	if err != nil {
		return "", nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err == nil {
		err = os.Chmod(dir, 0o755)
	}
	return dir, func() { os.RemoveAll(dir) }, err
}

// Adopt takes over what npm has installed, and returns its version. Older ones but the
// last go.
func Adopt(tools string, a *Agent, staged string) (version string, err error) {
	parent := filepath.Join(tools, a.Name)
	if version, err = stagedVersion(staged, a); err != nil {
		return "", fmt.Errorf("what was installed is not %s: %w", a.Name, err)
	}
	to := filepath.Join(parent, version)
	if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
		if err := os.Rename(staged, to); err != nil {
			return "", err
		}
	}
	before, _ := os.Readlink(filepath.Join(parent, current))
	link := filepath.Join(parent, ".current")
	_ = os.Remove(link)
	if err := os.Symlink(version, link); err != nil {
		return "", err
	}
	if err := os.Rename(link, filepath.Join(parent, current)); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(parent)
	for _, e := range entries {
		// Those that are used may still be: somebody else may be installing, too.
		if !slices.Contains([]string{version, before, current}, e.Name()) && !strings.HasPrefix(e.Name(), ".") {
			err = errors.Join(err, os.RemoveAll(filepath.Join(parent, e.Name())))
		}
	}
	return version, err
}

// stagedVersion looks at what a stranger's install script may have left.
func stagedVersion(path string, a *Agent) (string, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if _, err := root.Stat(filepath.Join("node_modules", ".bin", a.Command)); err != nil {
		return "", err
	}
	dir, err := root.Open(".")
	if err != nil {
		return "", err
	}
	defer dir.Close()
	data, err := safepath.ReadFile(dir, filepath.Join("node_modules", a.Package, "package.json"), 1<<20)
	if err != nil {
		return "", err
	}
	var p struct{ Version string }
	if err := json.Unmarshal(data, &p); err != nil {
		return "", err
	}
	v := VersionIn(p.Version)
	if v == "" || v != p.Version {
		return "", fmt.Errorf("its version is %q", p.Version)
	}
	return v, nil
}

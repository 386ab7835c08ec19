package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Mount is a place of the host that a sandbox sees besides its workspace, as it was
// when the user agreed to it.
type Mount struct {
	Source   string `json:"source"` // absolute, without symbolic links
	Target   string `json:"target"` // absolute
	ReadOnly bool   `json:"read_only,omitempty"`
	// Copy shows a copy of a file or directory, taken whenever the sandbox starts.
	Copy bool `json:"copy,omitempty"` // since version 3
}

// CheckMountPoint wants the target of a mount in a workspace to be there, without links on
// the way, and to be of the same kind: nothing is made in the user's directory for it. It
// cannot be in a git directory.
func CheckMountPoint(m Mount, workspace string) error {
	rel, err := filepath.Rel(workspace, m.Target)
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return fmt.Errorf("%s is not in the workspace", m.Target)
	}
	if slices.Contains(strings.Split(rel, "/"), ".git") {
		return fmt.Errorf("the target %s is in a git directory", m.Target)
	}
	real, err := filepath.EvalSymlinks(m.Target)
	if err != nil || real != m.Target {
		return fmt.Errorf("the target %s is in the workspace, and not there, or a link; make it first", m.Target)
	}
	from, err1 := os.Stat(m.Source)
	at, err2 := os.Lstat(m.Target)
	if err1 != nil || err2 != nil || from.IsDir() != at.IsDir() {
		return fmt.Errorf("the target %s is in the workspace, and not of the same kind as %s", m.Target, m.Source)
	}
	return nil
}

// A Cache is a directory of the host that the sandbox sees at Target, and what it changes
// there it keeps to itself.
type Cache struct {
	Name   string `json:"name"` // of its layer
	Source string `json:"source"`
	Target string `json:"target"`
}

func (c Cache) validate() error {
	if c.Name == "" || strings.Trim(c.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("%q cannot be the name of a cache", c.Name)
	}
	return Mount{Source: c.Source, Target: c.Target}.validate()
}

func (m Mount) validate() error {
	for _, p := range []string{m.Source, m.Target} {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/" {
			return fmt.Errorf("mount %q on %q: not an absolute path, or not a clean one", m.Source, m.Target)
		}
	}
	return nil
}

// WritesHost says whether programs inside can make files on the host.
func (r *Record) WritesHost() bool {
	return r.Workspace.Mode == WorkspaceDirect || r.Workspace.Mode == WorkspaceTree || slices.ContainsFunc(r.Mounts, func(m Mount) bool { return !m.ReadOnly })
}

// Writes are directories of the host, besides those of the store, that the sandbox can write.
func (r *Record) Writes() (dirs []string) {
	if r.Workspace.Mode == WorkspaceDirect {
		dirs = append(dirs, r.Workspace.Path)
	}
	for _, m := range r.Mounts {
		if !m.ReadOnly && !m.Copy {
			dirs = append(dirs, m.Source)
		}
	}
	return dirs
}

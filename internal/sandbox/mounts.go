package sandbox

import (
	"fmt"
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
	// Copy shows a copy of a file, taken whenever the sandbox starts.
	Copy bool `json:"copy,omitempty"` // since version 3
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
		if !filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/" || !storable(p) {
			return fmt.Errorf("mount %q on %q: not an absolute path, or not a clean one", m.Source, m.Target)
		}
	}
	return nil
}

// WritesHost says whether programs inside can make files on the host.
func (r *Record) WritesHost() bool {
	return r.Workspace.Mode == WorkspaceDirect || r.Workspace.Mode == WorkspaceTree || slices.ContainsFunc(r.Mounts, func(m Mount) bool { return !m.ReadOnly })
}

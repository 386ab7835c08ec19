package sandbox

import (
	"fmt"
	"path/filepath"
	"slices"
)

// A Mount is a place of the host that a sandbox sees besides its workspace, as it was
// when the user agreed to it.
type Mount struct {
	Source   string `json:"source"` // absolute, without symbolic links
	Target   string `json:"target"` // absolute
	ReadOnly bool   `json:"read_only,omitempty"`
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

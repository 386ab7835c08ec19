package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cofferhq/coffer/internal/agent"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/sandbox"
)

// Laid says whether a file of the user's is laid into the sandbox's home, to be written
// there, and as what: an agent that has its settings in it rewrites them. All others are
// shown by mounts, which nobody inside can change.
func Laid(r *sandbox.Record, m sandbox.Mount) (name string, ok bool) {
	home := sandbox.Me().Home
	if !m.Copy || !safepath.Within(m.Target, home) {
		return "", false
	}
	if w := r.Workspace.Path; r.Workspace.Mode != sandbox.WorkspaceNone && w != "" && (m.Target == w || safepath.Within(m.Target, w)) {
		return "", false // it is the user's own file that is there
	}
	name, err := filepath.Rel(home, m.Target)
	return name, err == nil && agent.Rewrites(name)
}

// layGiven lays files of the user's into the home of a machine that has booted: the home
// has its owner by then, and no program runs yet.
func layGiven(sb *sandbox.Sandbox) error {
	for _, m := range sb.Mounts {
		name, ok := Laid(&sb.Record, m)
		if !ok {
			continue
		}
		if err := layOne(sb, m.Source, name); err != nil {
			return fmt.Errorf("show %s inside: %w", m.Source, err)
		}
	}
	return nil
}

// layOne lays one. What it was the last time is kept in the sandbox's folder, to tell what
// the user has changed from what programs have.
func layOne(sb *sandbox.Sandbox, source, name string) error {
	kept := filepath.Join(sb.Dir(), "laid", name)
	was, err := os.ReadFile(kept)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	is, err := readGiven(source, kept+".new")
	if err != nil {
		return err
	}
	home, err := agent.OpenHome(sb.Home())
	if err != nil {
		return err
	}
	defer home.Close()
	if err := home.Lay(name, was, is); err != nil {
		return err
	}
	if is != nil {
		return os.Rename(kept+".new", kept)
	}
	if err := os.Remove(kept); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readGiven reads a file of the user's by way of a copy. One that the user has no more is
// nil.
func readGiven(source, copied string) ([]byte, error) {
	err := copyGiven(source, copied)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(copied)
}

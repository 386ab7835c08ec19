package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/safepath"
	"github.com/cofferhq/coffer/internal/ui"
)

// The administrator's floor is /etc/coffer/policy.toml, a file of root's: what holds for
// all sandboxes of all users, whatever they say. It has keys of its own, and all of them
// take something away.
type Floor struct {
	// Isolation is the wall that a sandbox must have at least.
	Isolation string `toml:"isolation" enum:"jail,container,gvisor,vm"`
	// Audit can be required: a sandbox does not start unless its audit log can be
	// written, and the log stays when the sandbox is removed; see 'coffer audit'.
	Audit string `toml:"audit" enum:"required"`
	// ForbidNesting forbids sandboxes whose programs may make namespaces.
	ForbidNesting bool         `toml:"forbid_nesting"`
	Network       FloorNetwork `toml:"network"`
	Mounts        FloorMounts  `toml:"mounts"`
	Limits        FloorLimits  `toml:"limits"`

	tree *node
}

// The most that a network may allow.
type FloorNetwork struct {
	// Max is the widest mode. With none or standard no rule, and no answer of a user
	// to a question, allows more than that; with ask users decide.
	Max string `toml:"max" enum:"none,standard,ask,open"`
	// Deny are targets that nobody can reach.
	Deny []string `toml:"deny" example:"[\"*.example.com\", \"10.0.0.0/8\"]"`
	// ForbidHostPorts forbids to reach ports of this machine.
	ForbidHostPorts bool `toml:"forbid_host_ports"`
}

// What of this machine a sandbox cannot be shown.
type FloorMounts struct {
	// Forbid are paths; what is in them and what they are in cannot be mounted either, nor
	// be a workspace, nor a repository that there are worktrees of inside. ["/"] forbids all
	// mounts and further repositories. ~/ is the home of each user.
	Forbid []string `toml:"forbid" example:"[\"/srv\", \"~/.ssh\"]"`
}

// What a sandbox may use at most.
type FloorLimits struct {
	// KeepFree is how much of a disk is to stay free at least, see limits.keep_free.
	KeepFree string `toml:"keep_free" example:"\"5g\""`
}

// readFloor reads the administrator's file, nil if there is none. One that others than root could
// have written is an error.
func readFloor(path string) (*Floor, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) || path == "" {
		return nil, nil
	}
	f, info, err := safepath.OpenOwn(path)
	if err != nil {
		return nil, fmt.Errorf("read the administrator's policy: %w", err)
	}
	defer f.Close()
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	for _, i := range []fs.FileInfo{info, dir} {
		if st, ok := i.Sys().(*syscall.Stat_t); !ok || st.Uid != floorOwner || i.Mode().Perm()&0o022 != 0 {
			return nil, ui.Error(fmt.Sprintf("the administrator's policy %s does not count: it, or its directory, is not root's own or can be written by others", path),
				fmt.Sprintf("as root: chown root %s %s && chmod go-w %s %s", filepath.Dir(path), path, filepath.Dir(path), path))
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the administrator's policy: %w", err)
	}
	return parseFloor(path, data)
}

// floorOwner is who the policy must belong to. Tests that are not root's change it.
var floorOwner uint32

func parseFloor(path string, data []byte) (*Floor, error) {
	fl := &Floor{}
	tree, problems := parse(path, data, fl)
	if tree == nil {
		return nil, problems.tidy()
	}
	fl.tree = tree
	for i, t := range fl.Network.Deny {
		if _, err := policy.ParseTarget(t); err != nil {
			problems.add(tree.get("network", "deny", i).at, "network.deny: %s", err)
		}
	}
	for i, p := range fl.Mounts.Forbid {
		if !filepath.IsAbs(p) && p != "~" && !strings.HasPrefix(p, "~/") {
			problems.add(tree.get("mounts", "forbid", i).at, "mounts.forbid: %s is not an absolute path", quote(p))
		}
	}
	if at := tree.get("limits", "keep_free"); at != nil {
		if _, err := limits.ParseKeepFree(fl.Limits.KeepFree); err != nil {
			problems.add(at.at, "limits.keep_free: %s", err)
		}
	}
	return fl, problems.tidy()
}

// ReadFloor reads the administrator's policy; nil if there is none.
func (p Places) ReadFloor() (*Floor, error) { return readFloor(p.Floor) }

// lower lowers the built-in defaults to the floor. A file or a flag that asks for more is refused.
func (f *Floor) lower(tree *node) *node {
	if f == nil {
		return tree
	}
	own := newTable(tree.at)
	set := func(to *node, name, value string, at *node) {
		to.fields[name] = &node{value: value, at: at.at, key: at.key}
	}
	if at := f.tree.get("network", "max"); at != nil && rank(tree.get("network", "mode").text(), networkOrder...) > rank(f.Network.Max, networkOrder...) {
		network := newTable(at.at)
		set(network, "mode", f.Network.Max, at)
		own.fields["network"] = network
	}
	// A config cannot name the walls of other engines, which are refused.
	if at := f.tree.get("isolation"); at != nil && f.Isolation == "container" {
		set(own, "isolation", f.Isolation, at)
	}
	return merge(tree, own)
}

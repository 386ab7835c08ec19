package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
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

	path string
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

// readFloor reads the administrator's file. One that others than root could have written
// is not his word, but it is no reason to go on as if there were none either.
func readFloor(path string) (*Floor, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) || path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("read the administrator's policy: %w", err)
	}
	defer f.Close()
	for _, file := range []string{"", filepath.Dir(path)} {
		info, err := f.Stat()
		if file != "" {
			info, err = os.Stat(file)
		}
		if err != nil {
			return nil, err
		}
		if file == "" && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is not a regular file", path)
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Uid != floorOwner || info.Mode().Perm()&0o022 != 0 {
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
	fl := &Floor{path: path}
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

// refuse says that the floor is in the way.
func (f *Floor) refuse(at *node, format string, args ...any) error {
	return ui.Error(fmt.Sprintf("%s, which the administrator of this machine does not allow (%s)", fmt.Sprintf(format, args...), at.at.Origin()),
		"ask for less, or talk to the administrator")
}

// weak says that a wall does not do.
func (f *Floor) weak(at *node, isolation string) error {
	way := "talk to the administrator: this coffer has no stronger wall"
	if isolation == "jail" && f.Isolation == "container" {
		way = "run it in a sandbox, with 'coffer run'"
	}
	return ui.Error(fmt.Sprintf("the wall would be a %s, and the administrator of this machine wants a %s at least (%s)", isolation, f.Isolation, at.at.Origin()), way)
}

// Enforce holds a sandbox to the floor: what goes beyond it is refused, and its rules
// are laid over the sandbox's. It is asked whenever one is made or started.
func (f *Floor) Enforce(rec *sandbox.Record, isolation, home string) error {
	if f == nil {
		return nil
	}
	if at := f.tree.get("isolation"); at != nil && rank(isolation, isolationOrder...) < rank(f.Isolation, isolationOrder...) {
		return f.weak(at, isolation)
	}
	rec.Audit = rec.Audit || f.Audit != ""
	if rec.Nesting && f.ForbidNesting {
		return f.refuse(f.tree.get("forbid_nesting"), "the sandbox would allow containers inside")
	}
	if err := f.enforceLimits(rec); err != nil {
		return err
	}
	if err := f.enforceMounts(rec, home); err != nil {
		return err
	}
	return f.enforceNetwork(rec)
}

// enforceLimits: who asked for less has more kept free, and who asked for nothing is told.
func (f *Floor) enforceLimits(rec *sandbox.Record) error {
	at := f.tree.get("limits", "keep_free")
	if at == nil {
		return nil
	}
	least, keep := kept(f.Limits.KeepFree), &rec.Limits.KeepFree
	switch {
	case *keep < 0 && least > 0:
		return f.refuse(at, "nothing of a disk would be kept free")
	case least > cmp.Or(*keep, limits.DefaultKeepFree):
		*keep = least
	}
	return nil
}

func (f *Floor) enforceMounts(rec *sandbox.Record, home string) error {
	for _, m := range rec.Mounts {
		if i := f.forbids(m.Source, home); i >= 0 {
			return f.refuse(f.tree.get("mounts", "forbid", i), "%s would be mounted", m.Source)
		}
	}
	for _, c := range rec.Caches {
		if i := f.forbids(c.Source, home); i >= 0 {
			return f.refuse(f.tree.get("mounts", "forbid", i), "the cache %s would be shown", c.Source)
		}
	}
	for i, place := range f.Mounts.Forbid {
		place = forbidden(place, home)
		for _, k := range rec.Sockets {
			if on(k.Host, place) || on(realPlace(k.Host), place) {
				return f.refuse(f.tree.get("mounts", "forbid", i), "the socket %s would lead through the wall", k.Host)
			}
		}
		if w := rec.Workspace.Path; w != "" && place != "/" && (on(w, place) || on(place, w)) {
			return f.refuse(f.tree.get("mounts", "forbid", i), "%s would be the workspace", w)
		}
	}
	return nil
}

// forbids is the index of the entry of mounts.forbid that a source is on, or -1.
func (f *Floor) forbids(source, home string) int {
	if f == nil {
		return -1
	}
	return slices.IndexFunc(f.Mounts.Forbid, func(place string) bool {
		place = forbidden(place, home)
		return on(source, place) || on(place, source)
	})
}

// forbidden is the real place that an entry of mounts.forbid stands for.
func forbidden(place, home string) string {
	if place == "~" || strings.HasPrefix(place, "~/") {
		place = filepath.Join(home, place[1:])
	}
	return realPlace(place)
}

func (f *Floor) enforceNetwork(rec *sandbox.Record) error {
	n := &rec.Network
	if at := f.tree.get("network", "max"); at != nil {
		if rank(n.Mode, networkOrder...) > rank(f.Network.Max, networkOrder...) && !n.None() {
			return f.refuse(at, "the network would be %s, and can be %s at most", n.Mode, f.Network.Max)
		}
		if what := beyondMode(n.Rules, f.Network.Max); what != "" {
			return f.refuse(at, "the network would be wider than %s: %s", f.Network.Max, what)
		}
		n.Max = f.Network.Max
	}
	if f.Network.ForbidHostPorts && len(n.HostPorts) > 0 {
		return f.refuse(f.tree.get("network", "forbid_host_ports"), "port %d of this machine could be reached", n.HostPorts[0].Outside)
	}
	if at := f.tree.get("network", "deny"); at != nil && len(f.Network.Deny) > 0 && !n.None() {
		deny := policy.Source{Origin: at.at.Origin(), Rules: []policy.RuleSource{{
			Name: "the administrator's policy", Deny: f.Network.Deny, Origin: at.at.Origin(),
		}}}
		if !slices.ContainsFunc(n.Rules, func(s policy.Source) bool { return reflect.DeepEqual(s, deny) }) {
			n.Rules = append(n.Rules, deny)
		}
	}
	return nil
}

// beyondMode names something that layers allow and a mode does not.
func beyondMode(layers []policy.Source, mode string) string {
	if mode != "none" && mode != "standard" {
		for _, s := range layers {
			if mode == "ask" && s.Default == "allow" {
				return "what no rule is about would be allowed (" + s.Origin + ")"
			}
		}
		return ""
	}
	set, err := policy.Stack{Mode: mode}.Compile(policy.Source{})
	if err != nil {
		return err.Error()
	}
	for _, s := range layers {
		if s.Default == "allow" || s.Default == "ask" {
			return "what no rule is about would be " + s.Default + " (" + s.Origin + ")"
		}
		for _, g := range s.Groups {
			s.Rules = append(s.Rules, policy.RuleSource{Allow: []string{"@" + strings.TrimPrefix(g, "@")}, Origin: s.Origin})
		}
		for _, r := range s.Rules {
			r.Allow = append(slices.Clone(r.Allow), r.Ask...)
			if beyond := set.Beyond(r); len(beyond) > 0 {
				return beyond[0] + " (" + r.Origin + ")"
			}
		}
	}
	return ""
}

// ReadFloor reads the administrator's policy; nil if there is none.
func (p Places) ReadFloor() (*Floor, error) { return readFloor(p.Floor) }

package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/policy"
	"github.com/cofferhq/coffer/internal/sandbox"
	"github.com/cofferhq/coffer/internal/ui"
)

// refuse is the error for what the floor does not allow.
func (f *Floor) refuse(at *node, format string, args ...any) error {
	return ui.Error(fmt.Sprintf("%s, which the administrator of this machine does not allow (%s)", fmt.Sprintf(format, args...), at.at.Origin()),
		"ask for less, or talk to the administrator")
}

func (f *Floor) isolation(is string) error {
	at := f.tree.get("isolation")
	if at == nil || rank(is, isolationOrder...) >= rank(f.Isolation, isolationOrder...) {
		return nil
	}
	way := "talk to the administrator: this coffer has no stronger wall"
	if is == "jail" && f.Isolation == "container" {
		way = "run it in a sandbox, with 'coffer run'"
	}
	return ui.Error(fmt.Sprintf("the wall would be a %s, and the administrator of this machine wants a %s at least (%s)", is, f.Isolation, at.at.Origin()), way)
}

// Enforce refuses a sandbox that goes beyond the floor, and adds the floor's rules to its own. It
// is called whenever one is made or started.
func (f *Floor) Enforce(rec *sandbox.Record, isolation, home string) error {
	if f == nil {
		return nil
	}
	if err := f.isolation(isolation); err != nil {
		return err
	}
	rec.Audit = rec.Audit || f.Audit != ""
	if rec.Nesting && f.ForbidNesting {
		return f.refuse(f.tree.get("forbid_nesting"), "the sandbox would allow containers inside")
	}
	if at := f.tree.get("limits", "keep_free"); at != nil {
		least, keep := kept(f.Limits.KeepFree), &rec.Limits.KeepFree
		if *keep < 0 && least > 0 {
			return f.refuse(at, "nothing of a disk would be kept free")
		}
		if least > cmp.Or(*keep, limits.DefaultKeepFree) {
			*keep = least
		}
	}
	if err := f.enforceMounts(rec, home); err != nil {
		return err
	}
	return f.enforceNetwork(rec)
}

// forbids refuses what is in a forbidden place or has one in it. Of above, places that have the
// path in them, or the other way round, count only if they are not the root.
func (f *Floor) forbids(path, home string, root bool, format string) error {
	if f == nil || path == "" {
		return nil
	}
	for i, place := range f.Mounts.Forbid {
		if place == "~" || strings.HasPrefix(place, "~/") {
			place = filepath.Join(home, place[1:])
		}
		if place = realPlace(place); (on(path, place) || on(place, path)) && (root || place != "/") {
			return f.refuse(f.tree.get("mounts", "forbid", i), format, path)
		}
	}
	return nil
}

func (f *Floor) enforceMounts(rec *sandbox.Record, home string) error {
	for _, m := range rec.Mounts {
		if err := f.forbids(m.Source, home, true, "%s would be mounted"); err != nil {
			return err
		}
	}
	for _, c := range rec.Caches {
		if err := f.forbids(c.Source, home, true, "the cache %s would be shown"); err != nil {
			return err
		}
	}
	for _, k := range rec.Sockets {
		for _, path := range []string{k.Host, realPlace(k.Host)} {
			if err := f.forbids(path, home, true, "the socket %s would lead through the wall"); err != nil {
				return err
			}
		}
	}
	return f.forbids(rec.Workspace.Path, home, false, "%s would be the workspace")
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
		rules := slices.Clone(s.Rules)
		for _, g := range s.Groups {
			rules = append(rules, policy.RuleSource{Allow: []string{"@" + strings.TrimPrefix(g, "@")}, Origin: s.Origin})
		}
		for _, r := range rules {
			r.Allow = append(slices.Clone(r.Allow), r.Ask...)
			if beyond := set.Beyond(r); len(beyond) > 0 {
				return beyond[0] + " (" + r.Origin + ")"
			}
		}
	}
	return ""
}

// EnforceJail refuses a jail that goes beyond the floor, but for rules of its network, see
// EnforceNetwork. network says that it has the machine's own, all that it can read the whole
// machine; otherwise shown is what it can besides the system.
func (f *Floor) EnforceJail(network, all bool, shown []string, home string) error {
	if f == nil {
		return nil
	}
	if err := f.isolation("jail"); err != nil {
		return err
	}
	if at := f.tree.get("audit"); at != nil {
		return f.refuse(at, "a jail keeps a log of its network only")
	}
	for key, limits := range map[string]bool{"max": f.Network.Max != "open", "deny": true, "forbid_host_ports": f.Network.ForbidHostPorts} {
		if at := f.tree.get("network", key); network && at != nil && limits {
			return f.refuse(at, "a jail would have the whole network of this machine")
		}
	}
	if all {
		return f.forbids("/", home, false, "a jail without --private can read all of %s")
	}
	for _, s := range shown {
		if err := f.forbids(s, home, false, "%s would be shown to the jail"); err != nil {
			return err
		}
	}
	return nil
}

// EnforceRepository refuses a repository in a forbidden place: a sandbox that has a worktree of it
// has all that was ever committed to it. own is that of the workspace, which a floor that forbids
// all mounts does not mean.
func (f *Floor) EnforceRepository(common, home string, own bool) error {
	if common == "" {
		return nil
	}
	return f.forbids(strings.TrimSuffix(realPlace(common), "/.git"), home, !own, "the repository %s would be shown")
}

// Forbids reports whether the floor forbids any place.
func (f *Floor) Forbids() bool { return f != nil && len(f.Mounts.Forbid) > 0 }

// EnforceNetwork holds the network of a jail that has rules to the floor, and reports whether the
// floor has any about networks: then no rule may be lost.
func (f *Floor) EnforceNetwork(n *sandbox.Network) (speaks bool, err error) {
	if f == nil {
		return false, nil
	}
	rec := &sandbox.Record{Network: *n}
	err = f.enforceNetwork(rec)
	*n = rec.Network
	return f.tree.get("network") != nil, err
}

// EnforceOff refuses a program without any wall if there is a floor: it could not be kept.
func (f *Floor) EnforceOff() error {
	if f == nil || len(f.tree.fields) == 0 {
		return nil
	}
	return f.refuse(f.tree.get(f.tree.names()[0]), "there would be no sandbox")
}

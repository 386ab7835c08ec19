package config

import (
	"path/filepath"
	"strings"

	"github.com/cofferhq/coffer/internal/sandbox"
)

// A Place is a program that runs on this machine itself, as far as the floor is concerned
// with it: in a jail.
type Place struct {
	Network bool     // it has the machine's own network
	All     bool     // it can read the whole machine
	Shown   []string // otherwise, what of the machine besides the system
}

// EnforceJail holds a jail to the floor, but for rules of its network: see EnforceNetwork. A
// jail hides little, so of a floor that speaks of that it can keep only the simplest forms.
func (f *Floor) EnforceJail(p Place, home string) error {
	if f == nil {
		return nil
	}
	if at := f.tree.get("isolation"); at != nil && rank("jail", isolationOrder...) < rank(f.Isolation, isolationOrder...) {
		return f.weak(at, "jail")
	}
	if at := f.tree.get("audit"); at != nil {
		return f.refuse(at, "a jail keeps a log of its network only")
	}
	if p.Network {
		for _, key := range []string{"max", "deny", "forbid_host_ports"} {
			if at := f.tree.get("network", key); at != nil && !(key == "max" && f.Network.Max == "open") && !(key == "forbid_host_ports" && !f.Network.ForbidHostPorts) {
				return f.refuse(at, "a jail would have the whole network of this machine")
			}
		}
	}
	for i, place := range f.Mounts.Forbid {
		if place == "~" || strings.HasPrefix(place, "~/") {
			place = filepath.Join(home, place[1:])
		}
		place = realPlace(place)
		at := f.tree.get("mounts", "forbid", i)
		if p.All && place != "/" {
			return f.refuse(at, "a jail without --private can read %s", place)
		}
		for _, s := range p.Shown {
			if place != "/" && (on(s, place) || on(place, s)) {
				return f.refuse(at, "%s would be shown to the jail", s)
			}
		}
	}
	return nil
}

// EnforceRepository refuses a repository in a forbidden place: a sandbox that has a worktree
// of it, or works on one, has all that was ever committed to it. own is the repository of the
// workspace, which a floor that forbids all mounts does not mean.
func (f *Floor) EnforceRepository(common, home string, own bool) error {
	if f == nil || common == "" {
		return nil
	}
	for i, place := range f.Mounts.Forbid {
		if place == "~" || strings.HasPrefix(place, "~/") {
			place = filepath.Join(home, place[1:])
		}
		if place = realPlace(place); place == "/" && own {
			continue
		}
		top := strings.TrimSuffix(realPlace(common), "/.git")
		if on(top, place) || on(place, top) {
			return f.refuse(f.tree.get("mounts", "forbid", i), "the repository %s would be shown", top)
		}
	}
	return nil
}

// Forbids says whether the floor forbids any place.
func (f *Floor) Forbids() bool { return f != nil && len(f.Mounts.Forbid) > 0 }

// EnforceNetwork holds the network of a jail that has rules to the floor, and says whether
// the floor speaks of networks: then no rule may be lost.
func (f *Floor) EnforceNetwork(n *sandbox.Network) (speaks bool, err error) {
	if f == nil {
		return false, nil
	}
	rec := &sandbox.Record{Network: *n}
	err = f.enforceNetwork(rec)
	*n = rec.Network
	return f.tree.get("network") != nil, err
}

// EnforceOff refuses a program without any wall on a machine whose administrator has said
// anything at all: it could keep none of it.
func (f *Floor) EnforceOff() error {
	if f == nil || len(f.tree.fields) == 0 {
		return nil
	}
	return f.refuse(f.tree.get(f.tree.names()[0]), "there would be no sandbox")
}

package jail

import (
	"path/filepath"
	"slices"

	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/safepath"
)

// locked is all that is closed although it lies in a writable place, outer before inner.
func (l *layout) locked() []string {
	all := slices.Clone(l.lock)
	for _, place := range slices.Concat(l.reserve, l.seed) {
		all = append(all, place.Path)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// shown lists what shall be seen, read-only, in places that are covered.
func (l *layout) shown(private bool) (paths []string) {
	covered := []string{"/run", "/tmp"}
	all := slices.Concat(runPlaces(), l.read)
	if private {
		covered = append(covered, l.home)
		all = append(all, rootfs.System(l.home)...)
	} else {
		all = append(all, l.home)
	}
	slices.Sort(all)
	for _, path := range all {
		if within(path, covered) && !within(path, l.write) && !within(path, paths) && !slices.Contains(covered, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// runPlaces are what of /run other parts of the system point to: the file that names the
// resolvers, and the programs of a system that has them there.
func runPlaces() (paths []string) {
	for _, path := range []string{"/etc/resolv.conf", "/run/current-system", "/run/booted-system", "/run/opengl-driver", "/run/wrappers"} {
		if real, err := filepath.EvalSymlinks(path); err == nil && safepath.Within(real, "/run") {
			paths = append(paths, real)
		}
	}
	return paths
}

// outermost leaves out places that lie in others, and sorts the rest.
func outermost(paths []string) (out []string) {
	for _, p := range slices.Sorted(slices.Values(paths)) {
		if !within(p, out) {
			out = append(out, p)
		}
	}
	return out
}

// within says whether a path is one of some directories, or in one.
func within(path string, dirs []string) bool {
	for _, d := range dirs {
		if path == d || safepath.Within(path, d) {
			return true
		}
	}
	return false
}

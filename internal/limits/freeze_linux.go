package limits

import (
	"path/filepath"
)

// Freeze stops all processes of the sandbox where they are, or lets them go on. It reports
// whether the sandbox has a group with which that can be done: cgroup.freeze of cgroup v2
// (Linux 5.2). A frozen process notices nothing, and SIGKILL still ends it.
func (g *Group) Freeze(yes bool) bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	value := "0"
	if yes {
		value = "1"
	}
	for _, d := range g.dirs {
		if d.v2 && g.sys.write(filepath.Join(d.path, "cgroup.freeze"), value) == nil {
			return true
		}
	}
	return false
}

// makeFreezable adds an empty v2 group to the v1 groups of a hybrid host, so that the sandbox
// can be frozen. It is best effort: nobody asked for it.
func (g *Group) makeFreezable(t tree, name string) {
	if t.unified == "" || len(g.dirs) == 0 {
		return
	}
	for _, d := range g.dirs {
		if d.v2 {
			return
		}
	}
	base := baseOf(t.unified)
	if g.sys.writableGroup(base) != nil {
		return
	}
	if d, err := g.sys.claim(filepath.Join(base, groupPrefix+name)); err == nil {
		d.v2 = true
		g.dirs = append(g.dirs, d)
	}
}

package limits

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// groupPrefix begins the directory name of every sandbox's group.
const groupPrefix = "coffer-"

// Group is the limits of one sandbox, in force from Add until Close. All its
// methods may be called on nil, which is a sandbox without limits.
type Group struct {
	sys     *system
	rlimits []Rlimit
	dirs    []*groupDir
	cpus    float64

	mu     sync.Mutex
	closed bool
	oom    bool // as of Close
}

// Prepare makes the groups that enforce l for the sandbox called name. It
// returns nil if there is nothing to enforce, and touches neither /proc nor
// cgroups unless one of them is needed.
func Prepare(name string, l Limits) (*Group, error) {
	if l == (Limits{}) {
		return nil, nil
	}
	return thisHost().prepare(name, l)
}

func (s *system) prepare(name string, l Limits) (*Group, error) {
	if err := l.validate(); err != nil {
		return nil, err
	}
	if err := validName(name); err != nil {
		return nil, err
	}
	g := &Group{sys: s, cpus: l.CPUs}
	if l.OpenFiles > 0 {
		r, err := s.rlimit("open files", unix.RLIMIT_NOFILE, l.OpenFiles)
		if err != nil {
			return nil, err
		}
		g.rlimits = append(g.rlimits, r)
	}
	if l.Pids == 0 && l.PidsDefault > 0 {
		if r, ok := s.pidsDefault(l.PidsDefault); ok {
			g.rlimits = append(g.rlimits, r)
		}
	}
	if l.Memory > 0 || l.CPUs > 0 || l.Pids > 0 {
		if err := g.makeGroups(name, l); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	if g.rlimits == nil && g.dirs == nil {
		return nil, nil
	}
	return g, nil
}

// validName keeps the name one directory, and one line.
func validName(name string) error {
	if name == "" || len(name) > 200 || strings.ContainsAny(name, "/\n\x00") {
		return fmt.Errorf("%q cannot name a cgroup", name)
	}
	return nil
}

// makeGroups finds a place for every controller first and then makes the
// groups, so that a limit that is unavailable leaves nothing behind.
func (g *Group) makeGroups(name string, l Limits) error {
	s := g.sys
	t, err := s.tree()
	if err != nil {
		return fmt.Errorf("find coffer's own cgroup: %w", err)
	}
	var order []place // v1 may mount several controllers together: one group
	wanted := map[place][]string{}
	for _, c := range []struct {
		controller string
		asked      bool
	}{{"memory", l.Memory > 0}, {"cpu", l.CPUs > 0}, {"pids", l.Pids > 0}} {
		if !c.asked {
			continue
		}
		p, no := s.locate(t, c.controller)
		if no != nil && c.controller == "pids" {
			if err := g.pidsByRlimit(l.Pids, no); err != nil {
				return err
			}
			continue
		}
		if no != nil {
			return no
		}
		if wanted[p] == nil {
			order = append(order, p)
		}
		wanted[p] = append(wanted[p], c.controller)
	}
	for _, p := range order {
		if err := g.makeGroup(p, name, wanted[p], l); err != nil {
			return s.explain(err, wanted[p])
		}
	}
	g.makeFreezable(t, name)
	return nil
}

// pidsByRlimit is what remains for pids when no cgroup will do.
func (g *Group) pidsByRlimit(n int, no *UnavailableError) error {
	if unfit := g.sys.nprocUnfit(); unfit != "" {
		no.Reason += "; " + unfit
		return no
	}
	r, err := g.sys.rlimit("pids", unix.RLIMIT_NPROC, n)
	if err == nil {
		g.rlimits = append(g.rlimits, r)
	}
	return err
}

func (g *Group) makeGroup(p place, name string, controllers []string, l Limits) error {
	if p.v2 {
		if err := g.sys.makeRoom(p.base, controllers); err != nil {
			return err
		}
	}
	d, err := g.sys.claim(filepath.Join(p.base, groupPrefix+name))
	if err != nil {
		return err
	}
	d.v2 = p.v2
	g.dirs = append(g.dirs, d)
	for _, c := range controllers {
		for _, set := range settings(p.v2, c, l, func(file string) bool { return exists(d.path, file) }) {
			err := g.sys.write(filepath.Join(d.path, set.file), set.value)
			if set.optional && errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return fmt.Errorf("set %s to %q: %w", set.file, set.value, err)
			}
		}
	}
	return nil
}

// explain turns a failure to do what locate thought possible into an error
// with a way out.
func (s *system) explain(err error, controllers []string) error {
	if errors.Is(err, errOwned) {
		return err // not the host's fault: the sandbox runs already
	}
	fix := "start it in a cgroup of its own: " + s.ownScope() + "; or leave the limit out"
	if errors.Is(err, unix.EINVAL) { // v1: no child may have more than its parent
		fix = "ask for no more than the cgroup coffer itself runs in has"
	}
	var names []string
	for _, c := range controllers {
		names = append(names, limitOf(c))
	}
	return &UnavailableError{
		Limit:  strings.Join(names, ", "),
		Reason: err.Error(),
		Fix:    fix,
		Err:    err,
	}
}

// Add puts the sandbox's first process under the limits. It must not have
// children yet, because those would stay outside. After an error the process
// is not limited and must not be let go on.
func (g *Group) Add(pid int) error {
	if g == nil {
		return nil
	}
	if pid <= 0 || pid == g.sys.pid {
		return fmt.Errorf("put process %d under limits: not the process of a sandbox", pid)
	}
	for _, d := range g.dirs {
		if err := g.sys.write(filepath.Join(d.path, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("put process %d under limits: %w", pid, err)
		}
	}
	return nil
}

// Rlimits lists what the sandbox's first process has to set on itself.
func (g *Group) Rlimits() []Rlimit {
	if g == nil {
		return nil
	}
	return append([]Rlimit(nil), g.rlimits...)
}

// Processors is how many processors programs can use at once, 0 if there is no limit.
func (g *Group) Processors() int {
	if g == nil {
		return 0
	}
	return int(math.Ceil(g.cpus))
}

// Grouped says whether the sandbox has control groups of its own.
func (g *Group) Grouped() bool { return g != nil && len(g.dirs) > 0 }

// OOMKilled reports whether a process of the sandbox was killed for going over
// the memory limit. It goes on answering after Close.
func (g *Group) OOMKilled() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.measureOOM()
}

func (g *Group) measureOOM() bool {
	if g.closed {
		return g.oom
	}
	for _, d := range g.dirs {
		if oomKilled(d.path) {
			return true
		}
	}
	return false
}

// Close kills what is left in the sandbox and removes its groups. It may be
// called again.
func (g *Group) Close() error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.oom, g.closed = g.measureOOM(), true
	var errs []error
	for _, d := range g.dirs {
		errs = append(errs, g.sys.destroy(d.path))
		unix.Close(d.fd) // gives up the lock; what destroy left is Sweep's now
	}
	return errors.Join(errs...)
}

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

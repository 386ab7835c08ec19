package limits

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// controllers are those of the kernel that we use.
var controllers = [...]string{"memory", "cpu", "pids"}

// limitOf names, by controller, the limit as the user knows it.
func limitOf(controller string) string {
	if controller == "cpu" {
		return "cpus"
	}
	return controller
}

// place is where a group for one controller can be made.
type place struct {
	v2   bool
	base string // the directory to make it in
}

func (p place) mechanism() string {
	if p.v2 {
		return CgroupV2
	}
	return CgroupV1
}

// locate finds where controller can be used, without changing anything.
func (s *system) locate(t tree, controller string) (place, *UnavailableError) {
	no := &UnavailableError{Limit: limitOf(controller)}
	base := baseOf(t.unified)
	own, v1 := t.v1[controller]
	switch {
	case t.unified != "" && slices.Contains(words(base, "cgroup.controllers"), controller):
		if s.usable(base, controller, no) {
			return place{v2: true, base: base}, nil
		}
	case v1:
		err := s.writableGroup(own)
		if err == nil {
			return place{base: own}, nil
		}
		no.Err = err
		no.Reason = fmt.Sprintf("this host has the %s controller in cgroup v1, and uid %d may not write %s (%v)", controller, s.euid, own, cause(err))
		no.Fix = "run coffer as root; or boot the host with systemd.unified_cgroup_hierarchy=1 and start it with " + s.ownScope()
	case t.unified == "":
		no.Reason = fmt.Sprintf("no cgroup hierarchy with the %s controller is visible here", controller)
		no.Fix = "mount one (mount -t cgroup2 none /sys/fs/cgroup), or in a container start that with its cgroups visible and writable"
	default:
		no.Reason = fmt.Sprintf("the %s controller is not delegated: coffer's cgroup %s does not have it", controller, t.unified)
		no.Fix = fmt.Sprintf("start it with %s; if that changes nothing, have root put \"[Service]\" and \"Delegate=cpu memory pids\" "+
			"into /etc/systemd/system/user@.service.d/delegate.conf and log in again", s.ownScope())
	}
	return place{}, no
}

// usable reports whether a v2 group can hand controller to children we make;
// otherwise it writes into no why not.
func (s *system) usable(base, controller string, no *UnavailableError) bool {
	no.Fix = "start it in a cgroup of its own: " + s.ownScope()
	if err := s.writableGroup(base); err != nil {
		no.Err = err
		no.Reason = fmt.Sprintf("coffer's cgroup %s is not delegated to uid %d (%v)", base, s.euid, cause(err))
		if errors.Is(err, unix.EROFS) {
			no.Fix = "mount cgroupfs writable; in a container, start that with a writable /sys/fs/cgroup"
		}
		return false
	}
	kind, root := groupType(base)
	if kind != "domain" { // below a threaded one, no group takes whole processes
		no.Reason = fmt.Sprintf("coffer's cgroup %s is of type %q, which cannot hold a sandbox", base, kind)
		return false
	}
	if slices.Contains(words(base, "cgroup.subtree_control"), controller) {
		return true
	}
	if err := s.writable(filepath.Join(base, "cgroup.subtree_control")); err != nil {
		no.Err = err
		no.Reason = fmt.Sprintf("the controllers of coffer's cgroup %s are not delegated to uid %d (%v)", base, s.euid, cause(err))
		return false
	}
	if root { // the one group in which processes may stay
		return true
	}
	if err := s.alone(base); err != nil {
		no.Err, no.Reason = err, err.Error()
		return false
	}
	return true
}

// alone fails if base has a process that is not ours to move.
func (s *system) alone(base string) error {
	list, err := pids(base)
	if err != nil {
		return err
	}
	for _, pid := range list {
		if s.ours(pid) {
			continue
		}
		// A child of ours may have ended meanwhile.
		if now, err := pids(base); err != nil || slices.Contains(now, pid) {
			return fmt.Errorf("coffer shares its cgroup %s with process %d (0 is one of another PID namespace), and a group with processes in it cannot limit its children", base, pid)
		}
	}
	return nil
}

// writableGroup asks for both: making children in dir, and moving processes
// between them, for which the kernel wants cgroup.procs of the common ancestor.
func (s *system) writableGroup(dir string) error {
	if err := s.writable(dir); err != nil {
		return err
	}
	return s.writable(filepath.Join(dir, "cgroup.procs"))
}

// groupType reads cgroup.type, which every group but the root of all has.
func groupType(dir string) (kind string, root bool) {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.type"))
	if errors.Is(err, fs.ErrNotExist) {
		return "domain", true
	}
	return strings.TrimSpace(string(data)), false
}

// ownScope is the command that gives coffer a cgroup to itself.
func (s *system) ownScope() string {
	if s.euid == 0 {
		return "systemd-run --scope -p Delegate=yes coffer …"
	}
	return "systemd-run --user --scope -p Delegate=yes coffer …"
}

// cause drops the path from an error whose sentence has it already.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// Probe says what this host can enforce. It changes nothing and only reads a
// handful of small files.
func Probe() Host { return thisHost().probe() }

func (s *system) probe() Host {
	t, err := s.tree()
	support := func(controller string) Support {
		if err != nil {
			return Support{Reason: err.Error(), Fix: "mount /proc"}
		}
		p, no := s.locate(t, controller)
		if no != nil {
			return Support{Reason: no.Reason, Fix: no.Fix}
		}
		return Support{Mechanism: p.mechanism()}
	}
	h := Host{Memory: support("memory"), Pids: support("pids"), CPUs: support("cpu"), OpenFiles: Support{Mechanism: ByRlimit}}
	if !h.Pids.Available() {
		if unfit := s.nprocUnfit(); unfit != "" {
			h.Pids.Reason += "; " + unfit
		} else {
			h.Pids = Support{Mechanism: ByRlimit}
		}
	}
	return h
}

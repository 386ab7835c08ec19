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
	if t.unified != "" {
		base := baseOf(t.unified)
		if slices.Contains(words(base, "cgroup.controllers"), controller) {
			if s.usable(base, controller, no) {
				return place{v2: true, base: base}, nil
			}
			return place{}, no
		}
	}
	if own, ok := t.v1[controller]; ok {
		if err := s.writableGroup(own); err != nil {
			no.Err = err
			no.Reason = fmt.Sprintf("this host has the %s controller in cgroup v1, and uid %d may not write %s (%v)",
				controller, s.euid, own, cause(err))
			no.Fix = "run coffer as root; or boot the host with systemd.unified_cgroup_hierarchy=1 and start it with " + s.ownScope()
			return place{}, no
		}
		return place{base: own}, nil
	}
	s.missing(t, controller, no)
	return place{}, no
}

// missing explains a controller that no hierarchy we can see offers.
func (s *system) missing(t tree, controller string, no *UnavailableError) {
	if t.unified == "" {
		no.Reason = fmt.Sprintf("no cgroup hierarchy with the %s controller is visible here", controller)
		no.Fix = "mount one (mount -t cgroup2 none /sys/fs/cgroup), or in a container start that with its cgroups visible and writable"
		return
	}
	listed := strings.Join(words(baseOf(t.unified), "cgroup.controllers"), " ")
	if listed == "" {
		listed = "nothing"
	}
	no.Reason = fmt.Sprintf("the %s controller is not delegated to coffer's cgroup %s (cgroup.controllers lists %s)",
		controller, t.unified, listed)
	no.Fix = fmt.Sprintf("start it with %s; if that changes nothing, have root put \"[Service]\" and \"Delegate=cpu memory pids\" "+
		"into /etc/systemd/system/user@.service.d/delegate.conf and log in again", s.ownScope())
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
	stranger, err := s.stranger(base)
	if err != nil {
		no.Err, no.Reason = err, err.Error()
		return false
	}
	if stranger >= 0 {
		no.Reason = notAlone(base, stranger)
		return false
	}
	return true
}

func notAlone(base string, stranger int) string {
	who := fmt.Sprintf("process %d", stranger)
	if stranger == 0 {
		who = "a process of another PID namespace"
	}
	return fmt.Sprintf("coffer shares its cgroup %s with %s, and a group with processes in it cannot limit its children", base, who)
}

// stranger finds a process in base that is not ours to move; -1 if none is.
func (s *system) stranger(base string) (int, error) {
	list, err := pids(base)
	if err != nil {
		return -1, err
	}
	for _, pid := range list {
		if !s.ours(pid) && s.stillIn(base, pid) {
			return pid, nil
		}
	}
	return -1, nil
}

// stillIn tells a stranger from a child of ours that ended while we looked.
func (s *system) stillIn(base string, pid int) bool {
	list, err := pids(base)
	return err != nil || slices.Contains(list, pid)
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
	h := Host{Memory: support("memory"), Pids: support("pids"), CPUs: support("cpu")}
	if !h.Pids.Available() {
		if s.nprocUnfit() == "" {
			h.Pids = Support{Mechanism: ByRlimit}
		} else {
			h.Pids.Reason += "; " + s.nprocUnfit()
		}
	}
	h.OpenFiles = Support{Mechanism: ByRlimit}
	return h
}

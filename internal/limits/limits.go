package limits

import "fmt"

// Limits is what a sandbox may use at most. Zero means not asked for.
type Limits struct {
	Memory    int64   // bytes, swap included
	Pids      int     // processes and threads
	CPUs      float64 // processors' worth of time: 1.5 is one and a half
	OpenFiles int     // file descriptors per process

	// PidsDefault is a guard against runaway forks for when nobody asked for
	// Pids. It is best effort: it needs no cgroup, is left out where it would
	// not work, and never fails.
	PidsDefault int
}

func (l Limits) validate() error {
	switch {
	case l.Memory < 0 || l.Memory > 0 && l.Memory < minMemory:
		return fmt.Errorf("memory limit of %d bytes: the least that works is %d (6m)", l.Memory, minMemory)
	case l.Pids < 0 || l.Pids > maxPids:
		return fmt.Errorf("pids limit of %d: want 1 to %d", l.Pids, maxPids)
	case l.PidsDefault < 0:
		return fmt.Errorf("default pids limit of %d: want a positive number", l.PidsDefault)
	case l.CPUs != 0 && CheckCPUs(l.CPUs) != nil:
		return fmt.Errorf("cpus limit of %w", CheckCPUs(l.CPUs))
	case l.OpenFiles < 0:
		return fmt.Errorf("open files limit of %d: want a positive number", l.OpenFiles)
	}
	return nil
}

// DefaultKeepFree is how many bytes of a disk programs leave free if nobody says otherwise.
const DefaultKeepFree = 1 << 30

// Rlimit is a resource limit to be set (prlimit) by the sandbox's first process
// on itself, inside its user namespace and before it starts anything.
type Rlimit struct {
	Resource   int // RLIMIT_* of the kernel
	Soft, Hard uint64
}

// The mechanisms of [Support].
const (
	CgroupV2  = "cgroup v2"
	CgroupV1  = "cgroup v1"
	ByRlimit  = "rlimit"
	unlimited = ""
)

// Host is what this host can enforce, for doctor.
type Host struct {
	Memory, Pids, CPUs, OpenFiles Support
}

// Support says how one limit would be enforced, or why it cannot be.
type Support struct {
	Mechanism string // CgroupV2, CgroupV1, ByRlimit, or "" when unavailable
	Reason    string // why it is unavailable
	Fix       string // what to do about it
}

// Available reports whether the limit can be asked for.
func (s Support) Available() bool { return s.Mechanism != unlimited }

// UnavailableError is a limit that was asked for and cannot be enforced.
type UnavailableError struct {
	Limit  string // "memory", "pids", "cpus", "open files"
	Reason string
	Fix    string
	Err    error // the system's own error, if one was the cause
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("cannot limit %s: %s; to fix: %s", e.Limit, e.Reason, e.Fix)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

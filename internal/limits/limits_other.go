//go:build !linux

package limits

import "errors"

// Control groups are Linux's. Elsewhere the sandbox is a virtual machine, whose
// engine gives it memory and processors when it boots.
const (
	otherReason = "control groups are a feature of Linux"
	otherFix    = "use an engine that runs a virtual machine, or leave the limit out"
)

// Group is empty on this system.
type Group struct{}

// Probe says what this host can enforce: nothing.
func Probe() Host {
	no := Support{Reason: otherReason, Fix: otherFix}
	return Host{Memory: no, Pids: no, CPUs: no, OpenFiles: no}
}

// Prepare fails if a limit was asked for.
func Prepare(_ string, l Limits) (*Group, error) {
	if err := l.validate(); err != nil {
		return nil, err
	}
	for _, asked := range []struct {
		limit string
		yes   bool
	}{
		{"memory", l.Memory != 0}, {"pids", l.Pids != 0}, {"cpus", l.CPUs != 0}, {"open files", l.OpenFiles != 0},
	} {
		if asked.yes {
			return nil, &UnavailableError{
				Limit: asked.limit, Reason: otherReason, Fix: otherFix, Err: errors.ErrUnsupported,
			}
		}
	}
	return nil, nil
}

// Add does nothing.
func (g *Group) Add(int) error { return nil }

// Rlimits is empty.
func (g *Group) Rlimits() []Rlimit { return nil }

// OOMKilled is false.
func (g *Group) OOMKilled() bool { return false }

// Freeze cannot.
func (g *Group) Freeze(bool) bool { return false }

// Close does nothing.
func (g *Group) Close() error { return nil }

// Disk is not looked at on this system.
type Disk struct{}

// OpenDisk fails.
func OpenDisk(string, uint64) (*Disk, error) { return nil, errors.ErrUnsupported }

// Short is empty.
func (d *Disk) Short() string { return "" }

// Same is false.
func (d *Disk) Same(*Disk) bool { return false }

// Close does nothing.
func (d *Disk) Close() {}

// Sweep does nothing.
func Sweep(func(name string) bool) {}

//go:build !linux

package limits

import "errors"

// Group is empty on this system: control groups are Linux's.
type Group struct{}

// Prepare fails if a limit was asked for.
func Prepare(_ string, l Limits) (*Group, error) {
	if l.PidsDefault = 0; l != (Limits{}) {
		return nil, errors.ErrUnsupported
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

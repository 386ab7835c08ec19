package confine

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// NoNewPrivs makes execve unable to grant the calling thread, and whatever it
// starts, anything it does not have already. (Linux 3.5)
func NoNewPrivs() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// DropCapabilities leaves the calling thread with the capabilities in keep
// (numbers, such as unix.CAP_CHOWN) and no other. All five sets become exactly
// keep: bounding, inheritable, permitted, effective and, so that they survive
// an exec by an ordinary user too, ambient. Asking to keep a capability that
// the thread does not have is an error.
//
// Without CAP_SETPCAP the bounding set cannot be changed. That is accepted for
// a thread with no_new_privs, for which no exec can draw on the bounding set,
// and is an error for every other thread.
func DropCapabilities(keep ...int) error {
	var want capSet
	for _, c := range keep {
		if c < 0 || c > 63 {
			return fmt.Errorf("keep capability %d: no such capability", c)
		}
		want |= 1 << c
	}
	if err := checkHeld(want); err != nil {
		return err
	}
	// The bounding set first: narrowing it takes CAP_SETPCAP, which the
	// third step usually removes.
	if err := dropBounding(want); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	if err := setCapabilities(want); err != nil {
		return err
	}
	// Only what is both permitted and inheritable can become ambient, hence
	// last.
	for c := range 64 {
		if !want.has(c) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(c), 0, 0); err != nil {
			return fmt.Errorf("make capability %d ambient: %w", c, err)
		}
	}
	return nil
}

// capSet has bit n set for capability n, like the sets in /proc/PID/status.
type capSet uint64

func (s capSet) has(c int) bool { return s>>c&1 == 1 }

// The kernel takes 64-bit sets as two halves since version 3 of the interface.
var capHeader = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3} // Pid 0: this thread

func checkHeld(want capSet) error {
	var data [2]unix.CapUserData
	header := capHeader
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	held := capSet(data[1].Permitted)<<32 | capSet(data[0].Permitted)
	for c := range 64 {
		if want.has(c) && !held.has(c) {
			return fmt.Errorf("keep capability %d: this thread does not have it", c)
		}
	}
	return nil
}

func setCapabilities(want capSet) error {
	low, high := uint32(want), uint32(want>>32)
	data := [2]unix.CapUserData{
		{Effective: low, Permitted: low, Inheritable: low},
		{Effective: high, Permitted: high, Inheritable: high},
	}
	header := capHeader
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	return nil
}

func dropBounding(want capSet) error {
	for c := range 64 {
		bound, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			return nil // one past the last capability this kernel knows
		}
		if err != nil {
			return fmt.Errorf("read bounding set: %w", err)
		}
		if bound == 0 || want.has(c) {
			continue
		}
		err = unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
		if errors.Is(err, unix.EPERM) && hasNoNewPrivs() {
			return nil
		}
		if err != nil {
			return fmt.Errorf("drop capability %d from bounding set: %w", c, err)
		}
	}
	return nil
}

func hasNoNewPrivs() bool {
	set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	return err == nil && set == 1
}

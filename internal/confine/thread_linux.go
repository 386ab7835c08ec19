package confine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// A Thread is what a thread gives up for good before it starts programs, or becomes one.
type Thread struct {
	Landlock *LandlockRules // nil for none
	Keep     []int          // capabilities, such as unix.CAP_CHOWN
	KeepAll  bool           // all of them
	Seccomp  SeccompOptions
}

// Confine confines the calling thread, in the order in which the steps need each other.
func (t *Thread) Confine() error {
	// The session keyring is that of the user outside. Join a new one, without a name.
	// A kernel without keyrings has none to leave.
	if _, _, err := unix.RawSyscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0); err != 0 && err != unix.ENOSYS {
		return fmt.Errorf("leave the session keyring: %w", err)
	}
	// From here on exec grants nothing. Without this, the kernel takes neither Landlock
	// rules nor a filter from a thread that has no capabilities.
	if err := NoNewPrivs(); err != nil {
		return err
	}
	// The rules name paths, some of which only a thread with capabilities can open.
	if t.Landlock != nil {
		if err := Landlock(*t.Landlock); err != nil {
			return err
		}
	}
	if !t.KeepAll {
		if err := DropCapabilities(t.Keep...); err != nil {
			return err
		}
	}
	// The filter comes last: it refuses calls that the steps above make.
	return Seccomp(t.Seccomp)
}

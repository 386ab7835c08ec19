//go:build !linux

package sandbox

import (
	"errors"

	"golang.org/x/sys/unix"
)

// There is flock only, which cannot be tested without being taken: a test that takes it, shared
// and for an instant, can make tryLock fail.

func tryLock(fd int) error {
	err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errHeld
	}
	return err
}

func waitLock(fd int) error { return unix.Flock(fd, unix.LOCK_EX) }

func lockHeld(fd int) (bool, error) {
	err := unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) // given back when fd is closed
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

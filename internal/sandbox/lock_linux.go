package sandbox

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Open file description locks (Linux 3.15). Like flock they belong to the open
// file and end with its last descriptor; unlike flock they can be tested without
// being taken, so that looking at a sandbox never keeps another from starting it.

func tryLock(fd int) error {
	err := ofdLock(fd, unix.F_OFD_SETLK)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return errHeld
	}
	return err
}

func waitLock(fd int) error { return ofdLock(fd, unix.F_OFD_SETLKW) }

func ofdLock(fd, cmd int) error {
	for {
		err := unix.FcntlFlock(uintptr(fd), cmd, &unix.Flock_t{Type: unix.F_WRLCK})
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func lockHeld(fd int) (bool, error) {
	probe := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &probe); err != nil {
		return false, err
	}
	return probe.Type != unix.F_UNLCK, nil
}

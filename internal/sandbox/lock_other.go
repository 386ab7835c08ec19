//go:build !linux

package sandbox

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// flock cannot be tested without being taken. The test takes it shared and for
// an instant; tryLock asks again a few times so as not to fall over a test.

func tryLock(fd int) error {
	for try := 0; ; try++ {
		err := flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if try == 10 {
			return errHeld
		}
		time.Sleep(time.Millisecond)
	}
}

func waitLock(fd int) error { return flock(fd, unix.LOCK_EX) }

func flock(fd, how int) error {
	for {
		err := unix.Flock(fd, how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func lockHeld(fd int) (bool, error) {
	err := flock(fd, unix.LOCK_SH|unix.LOCK_NB) // given back when fd is closed
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

//go:build !linux

package attach

import (
	"time"

	"golang.org/x/sys/unix"
)

// stopGroup stops us. It returns when we go on.
func stopGroup(went <-chan struct{}) bool {
	_ = unix.Kill(0, unix.SIGSTOP)
	select {
	case <-went:
		return true
	case <-time.After(stopTime):
		return false
	}
}

//go:build !linux

package wire

import (
	"errors"
	"net"
	"syscall"
)

func trusted(*net.UnixConn) error { return errors.ErrUnsupported }

// PeerPID is not known on this system.
func PeerPID(syscall.Conn) int { return 0 }

// Suspended is not known on this system.
func Suspended(Place) bool { return false }

// KillHung does not work on this system.
func KillHung(Place) error { return errors.ErrUnsupported }

package supervisor

import (
	"math"

	"golang.org/x/sys/unix"
)

// closeOnExec keeps the descriptors that our caller's shell left open from a supervisor, which
// outlives us: a lock or a pipe would stay taken until the sandbox is idle.
func closeOnExec() error {
	return unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
}

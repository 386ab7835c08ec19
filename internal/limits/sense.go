package limits

import (
	"fmt"
	"math"
)

// A WrongError is about a limit with which no sandbox could work, whoever asks for it.
type WrongError struct {
	What string // the value, and what is wrong with it
	Want string // which would do
}

func (e *WrongError) Error() string { return e.What + ": " + e.Want }

func wrong(want, what string, args ...any) error {
	return &WrongError{fmt.Sprintf(what, args...), want}
}

// least is what is wanted instead of something that is less. Elsewhere, nothing may mean no limit.
func least(value any, nothing bool) string {
	if nothing {
		return fmt.Sprintf("want at least %v; for no limit, leave it out", value)
	}
	return fmt.Sprintf("want at least %v", value)
}

// Bounds outside of which a limit is a typing error rather than a wish.
const (
	minMemory = 6 << 20 // less and not even the guest starts
	minPids   = 32      // the guest, which has the limits too, needs as many
	maxPids   = 1 << 22 // PID_MAX_LIMIT on 64-bit kernels
	minFiles  = 64      // and so many files
	minCPUs   = 0.01    // the kernel's smallest quota, 1 ms in 100 ms
	maxCPUs   = 1 << 16
)

// CheckPids wants a limit on processes and threads that makes sense.
func CheckPids(n int) error {
	switch {
	case n < minPids:
		return wrong(least(minPids, n == 0), "%d is too low for the sandbox itself", n)
	case n > maxPids:
		return wrong(fmt.Sprintf("want at most %d", maxPids), "%d is more than a machine can have", n)
	}
	return nil
}

// CheckOpenFiles wants a limit on open files that makes sense. How many there can be at most
// is for the host to say.
func CheckOpenFiles(n int) error {
	if n < minFiles {
		return wrong(least(minFiles, n == 0), "%d is too low for the sandbox itself", n)
	}
	return nil
}

// CheckCPUs wants a limit on processors that makes sense.
func CheckCPUs(n float64) error {
	switch {
	case math.IsNaN(n) || n > maxCPUs:
		return wrong(fmt.Sprintf("want %v to %d, such as 1.5", minCPUs, maxCPUs), "%v is not a number of processors", n)
	case n < minCPUs:
		return wrong(least(minCPUs, n == 0), "%v is too low for anything to run", n)
	}
	return nil
}

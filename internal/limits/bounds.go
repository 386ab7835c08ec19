package limits

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
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
	minKeep   = 1 << 20 // less is a unit that was forgotten
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

// ParseMemory reads a size as people write it: 512m, 2G, 1.5GiB, or a plain
// number of bytes. Units are powers of 1024 in either case and with or without
// "b" or "ib", because that is what memory limits mean everywhere else. What is too
// little for a sandbox to start is refused with the rest.
func ParseMemory(s string) (int64, error) {
	n, why := parseSize(s)
	switch {
	case why == tooLarge:
		return 0, wrong("want less, such as 512m, 2G or 1.5GiB; for no limit, leave it out", "%q %s", s, why)
	case why != "":
		return 0, wrong("want a number and a unit, such as 512m, 2G or 1.5GiB", "%q %s", s, why)
	case n >= minMemory:
		return n, nil
	}
	want := least("6m", n == 0)
	if n > 0 && strings.Trim(s, " 0123456789") == "" {
		want += ", and a unit, such as 512m"
	}
	return 0, wrong(want, "%q is too little for the sandbox itself", s)
}

// ParseKeepFree reads how much of a disk is to be kept free, as ParseMemory does. 0 is nothing, which
// is returned as -1.
func ParseKeepFree(s string) (int64, error) {
	n, why := parseSize(s)
	switch {
	case why != "":
		return 0, wrong("want a number and a unit, such as 512m or 2g, or 0 to keep nothing free", "%q %s", s, why)
	case n == 0:
		return -1, nil
	case n < minKeep:
		return 0, wrong("want at least 1m, and a unit, or 0 to keep nothing free", "%q is too little to be of use", s)
	}
	return n, nil
}

var sizes = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) *([kmgt]?)(?:i?b)?$`)

const tooLarge = "is too large"

// parseSize reads a number of bytes, or says why something is none.
func parseSize(s string) (n int64, why string) {
	m := sizes.FindStringSubmatch(strings.ToLower(strings.TrimSpace(s)))
	if m == nil {
		return 0, "is not a size"
	}
	bytes, err := strconv.ParseFloat(m[1], 64)
	if m[2] != "" {
		bytes = math.Ldexp(bytes, 10*(1+strings.Index("kmgt", m[2])))
	}
	if err != nil || bytes >= math.MaxInt64 {
		return 0, tooLarge
	}
	return int64(bytes), ""
}

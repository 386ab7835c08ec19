package limits

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func hardRlimit(resource int) uint64 {
	var r unix.Rlimit
	if unix.Getrlimit(resource, &r) != nil {
		return 0
	}
	return r.Max
}

// rlimit makes a limit that the sandbox cannot raise again. Nor can we promise
// more than our own hard limit: inside a user namespace nobody may raise it.
func (s *system) rlimit(limit string, resource, n int) (Rlimit, error) {
	want := uint64(n)
	if hard := s.hard(resource); want > hard {
		return Rlimit{}, &UnavailableError{
			Limit:  limit,
			Reason: fmt.Sprintf("%d is more than the %d this process is itself limited to", n, hard),
			Fix:    fmt.Sprintf("ask for at most %d, or raise the hard limit of the user in /etc/security/limits.conf", hard),
		}
	}
	return Rlimit{Resource: resource, Soft: want, Hard: want}, nil
}

// pidsDefault is the rlimit nobody asked for: the smaller of n and what we
// have, and none at all where it would hit the user's other programs.
func (s *system) pidsDefault(n int) (Rlimit, bool) {
	if !s.nprocPerNamespace {
		return Rlimit{}, false
	}
	v := min(uint64(n), s.hard(unix.RLIMIT_NPROC))
	return Rlimit{Resource: unix.RLIMIT_NPROC, Soft: v, Hard: v}, true
}

// nprocUnfit says why RLIMIT_NPROC would not enforce a limit on pids; "" if it
// would.
func (s *system) nprocUnfit() string {
	switch {
	case !s.nprocPerNamespace:
		return "RLIMIT_NPROC counts per sandbox only since Linux 5.14"
	case s.euid == 0:
		return "RLIMIT_NPROC does not hold for root"
	}
	return ""
}

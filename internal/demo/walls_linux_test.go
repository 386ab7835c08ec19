package demo

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A wall is named only if the evidence is there; else the error speaks for itself.
func TestWallsNeedEvidence(t *testing.T) {
	here := evidence{Processes: "pid:[1]", Network: "net:[1]", Mounts: "mnt:[1]", Home: "1:1"}
	other := evidence{Processes: "pid:[2]", Network: "net:[2]", Mounts: "mnt:[2]", Home: "1:2", NoNewPrivs: true}
	for _, c := range []struct {
		name     string
		wall     func(clues) string
		errno    unix.Errno
		filtered bool
	}{
		{"own home", ownHome, unix.ENOENT, false},
		{"own home, written", ownHome, 0, false},
		{"own files", ownFiles, unix.ENOENT, false},
		{"own processes", ownProcesses, unix.ESRCH, false},
		{"ended with it", endedWith, 0, false},
		{"own network", ownNetwork, unix.ECONNREFUSED, false},
		{"own names", ownNames, unix.ECONNREFUSED, false},
		{"no new privileges", noNewPrivileges, 0, false},
	} {
		r := report{Errno: int(c.errno), Filtered: c.filtered}
		if c.wall(clues{r, other, here}) == "" {
			t.Errorf("%s: there is evidence, but no name", c.name)
		}
		if got := c.wall(clues{r, here, here}); got != "" {
			t.Errorf("%s: without evidence it is called %q", c.name, got)
		}
	}
	refused := report{Errno: int(unix.EPERM), Error: "operation not permitted"}
	m := misdeed{wall: seccomp}
	if got := m.explain(clues{report: refused}); got != refused.Error {
		t.Errorf("the kernel's own refusal is called %q", got)
	}
	refused.Filtered = true
	if got := m.explain(clues{report: refused}); got == refused.Error {
		t.Error("the filter's refusal has no name")
	}
}

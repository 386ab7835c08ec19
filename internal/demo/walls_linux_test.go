package demo

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A wall is named only if the evidence is there; else the error speaks for itself.
func TestWallsNeedEvidence(t *testing.T) {
	here := evidence{Processes: "pid:[1]", Network: "net:[1]", Mounts: "mnt:[1]", Home: "1:1"}
	other := evidence{Processes: "pid:[2]", Network: "net:[2]", Mounts: "mnt:[2]", Home: "1:2", NoNewPrivs: true}
	const said = "coffer: refused collector.example: no rule matches, and so on\n"
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
		{"refused", refused, 0, false},
		{"no new privileges", noNewPrivileges, 0, false},
	} {
		r := report{Errno: int(c.errno), Filtered: c.filtered}
		if c.wall(clues{r, other, here, said}) == "" {
			t.Errorf("%s: there is evidence, but no name", c.name)
		}
		if got := c.wall(clues{r, here, here, said}); got != "" {
			t.Errorf("%s: without evidence it is called %q", c.name, got)
		}
	}
	not := report{Errno: int(unix.EPERM), Error: "operation not permitted"}
	if got := refused(clues{inside: other, outside: here, said: "coffer: refused other.example: no\n"}); got != "" {
		t.Errorf("another refusal is taken for this one: %q", got)
	}
	m := misdeed{wall: seccomp}
	if got := m.explain(clues{report: not}); got != not.Error {
		t.Errorf("the kernel's own refusal is called %q", got)
	}
	not.Filtered = true
	if got := m.explain(clues{report: not}); got == not.Error {
		t.Error("the filter's refusal has no name")
	}
}

package demo

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// clues are what is known about why a misdeed failed.
type clues struct {
	report
	inside, outside evidence
	said            string // what coffer said on standard error
}

// explain names the wall, or else repeats what the kernel said.
func (m misdeed) explain(c clues) string {
	if m.wall != nil {
		if w := m.wall(c); w != "" {
			return w
		}
	}
	if c.Error != "" {
		return c.Error
	}
	return "no effect outside"
}

func (c clues) is(errno unix.Errno) bool { return c.Errno == int(errno) }

// ownHome: the same path leads to another directory inside.
func ownHome(c clues) string {
	switch {
	case c.inside.Home == c.outside.Home:
		return ""
	case c.is(unix.ENOENT):
		return "not there: a home of its own"
	case c.Errno == 0:
		return "went to its own home, now gone"
	}
	return ""
}

// ownFiles: it sees another tree of mounts, and the path is not in it.
func ownFiles(c clues) string {
	if c.is(unix.ENOENT) && c.inside.Mounts != c.outside.Mounts {
		return "not there: no socket is shared"
	}
	return ""
}

func notPassed(c clues) string {
	if c.is(unix.ENOENT) && c.Loot == "" {
		return "not passed on: few variables are"
	}
	return ""
}

func readOnly(c clues) string {
	if c.is(unix.EROFS) {
		return "read-only mount"
	}
	return ""
}

func pinned(c clues) string {
	if c.is(unix.EBUSY) {
		return "a mount point cannot be moved"
	}
	return readOnly(c)
}

// ownProcesses holds as well when the number belongs to another process inside.
func ownProcesses(c clues) string {
	if c.inside.Processes != c.outside.Processes {
		return "own process namespace"
	}
	return ""
}

func endedWith(c clues) string {
	if c.Errno == 0 && c.inside.Processes != c.outside.Processes {
		return "ended with its process namespace"
	}
	return ""
}

func ownNetwork(c clues) string {
	if c.is(unix.ECONNREFUSED) && c.inside.Network != c.outside.Network {
		return "its loopback is not yours"
	}
	return ""
}

// refused: coffer has said that its gateway refused the host, and why.
func refused(c clues) string {
	for line := range strings.Lines(c.said) {
		if why, ok := strings.CutPrefix(line, "coffer: refused "+collector+": "); ok && c.inside.Network != c.outside.Network {
			why, _, _ = strings.Cut(strings.TrimSpace(why), ",") // the rest would not fit
			return "gateway: " + why
		}
	}
	return ""
}

// ownNames: sockets without a file belong to the network namespace too.
func ownNames(c clues) string {
	if ownNetwork(c) != "" {
		return "own network namespace"
	}
	return ""
}

func seccomp(c clues) string {
	if c.is(unix.EPERM) && c.Filtered {
		return "seccomp: system call refused"
	}
	return ""
}

func noNewPrivileges(c clues) string {
	if c.inside.NoNewPrivs && !c.outside.NoNewPrivs {
		return "no new privileges"
	}
	return ""
}

// gather collects the evidence about the process that calls it.
func gather(home string) evidence {
	e := evidence{
		Processes: namespace("pid"), Network: namespace("net"), Mounts: namespace("mnt"),
	}
	var st unix.Stat_t
	if unix.Stat(home, &st) == nil {
		e.Home = fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	}
	status, _ := os.ReadFile("/proc/self/status")
	e.NoNewPrivs = strings.Contains(string(status), "NoNewPrivs:\t1\n")
	return e
}

func namespace(kind string) string {
	name, _ := os.Readlink("/proc/self/ns/" + kind)
	return name
}

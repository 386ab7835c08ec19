package demo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// A misdeed is something that an agent should not be able to do.
type misdeed struct {
	name  string
	title string // for the table
	// try does it, inside or outside alike, and brings back what it found.
	try func(t target) (loot string, err error)
	// harm looks at the victim afterwards, from outside.
	harm func(s *stage, r report) bool
	// wall is what was built against it.
	wall string
}

// misdeeds are what an agent tries, in this order: the process is killed when its environment
// has been read.
var misdeeds = slices.Concat(secrets, files, machine)

// machine are misdeeds against the host and its processes.
var machine = []misdeed{
	{
		name: "kill", title: "kill a process of yours",
		try:  func(t target) (string, error) { return "", kill(t.Process) },
		harm: func(s *stage, _ report) bool { return !s.bystander.lives() }, wall: "own process namespace",
	},
	{
		// Harmless bare: the mount is in a namespace that ends with its one process.
		name: "namespace", title: "make a namespace and mount in it",
		try:  func(t target) (string, error) { return "", mountInNamespace(t.Work) },
		harm: func(_ *stage, r report) bool { return r.Errno == 0 }, wall: "seccomp: system call refused",
	},
}

func (m misdeed) attempt(t target) *report {
	loot, err := m.try(t)
	r := &report{Name: m.name, Loot: loot}
	if err != nil {
		var errno syscall.Errno
		if r.Errno = -1; errors.As(err, &errno) {
			r.Errno = int(errno)
		}
	}
	return r
}

// reason is an error without paths.
func reason(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}

// brought is the harm of a misdeed that brings back a secret of the stage.
func brought(secret func(s *stage) string) func(*stage, report) bool {
	return func(s *stage, r report) bool { return r.Loot == secret(s) }
}

// kill kills a process unless the number is one of our own in here.
func kill(pid int) error {
	if exists(fmt.Sprintf("/proc/self/task/%d", pid)) {
		return unix.ESRCH
	}
	return unix.Kill(pid, unix.SIGKILL)
}

// mountInNamespace lays an empty file system over a directory, in the way that needs
// no rights outside: in a user namespace whose root we are.
func mountInNamespace(dir string) error {
	me, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.Command(me, "demo", ActCommand, roleMount, dir)
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	return c.Run()
}

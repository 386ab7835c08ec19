package testbed

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
)

// Namespaces is for a process in a user namespace of its own, in which it is root, in a mount
// namespace, and in others as flags say. A test is skipped where the host does not let whoever
// runs it have them, or mount something there.
func Namespaces(t testing.TB, flags uintptr) *syscall.SysProcAttr {
	t.Helper()
	Needs(t, "mount")
	attr := func() *syscall.SysProcAttr {
		return &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | flags,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
	}
	c := exec.Command("mount", "-t", "tmpfs", "none", "/tmp")
	c.SysProcAttr = attr()
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	refused := func(no error) bool { return errors.Is(err, no) }
	if errors.As(err, &exit) && exit.Exited() || slices.ContainsFunc([]error{syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.ENOSYS, syscall.ENOSPC}, refused) {
		t.Skipf("this host has no namespaces for this user: %v: %s", err, out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return attr()
}

const apart = "COFFER_TESTBED_APART"

// Apart runs the calling test again as root of namespaces, where it may mount, and nobody else
// sees it. It is true for the run that shall do the work.
func Apart(t *testing.T) bool {
	t.Helper()
	if os.Getenv(apart) != "" {
		return true
	}
	again(t, os.Getuid(), Namespaces(t, 0), apart+"=1")
	return false
}

// Children skips a test on a kernel that does not tell which children a process has.
func Children(t testing.TB) {
	t.Helper()
	if _, err := os.Stat("/proc/thread-self/children"); err != nil {
		t.Skipf("this kernel does not tell about children: %v", err)
	}
}

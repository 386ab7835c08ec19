package birth

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// In a namespace that has no root, a program that belongs to root outside gives nobody
// its rights, and so is of no help.
func TestHelperOfAnotherRoot(t *testing.T) {
	const inside = "COFFER_TEST_HELPER"
	if os.Getenv(inside) != "" {
		if path, err := HelperPath("newuidmap"); err == nil {
			t.Fatalf("%s is taken for a help", path)
		}
		return
	}
	if _, err := HelperPath("newuidmap"); err != nil {
		t.Skip("there is no newuidmap: ", err)
	}
	c := exec.Command("/proc/self/exe", "-test.run=^TestHelperOfAnotherRoot$")
	c.Env = append(os.Environ(), inside+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getgid(), Size: 1}},
	}
	out, err := c.CombinedOutput()
	if exit, ran := err.(*exec.ExitError); err != nil && !ran {
		t.Skip("no user namespace: ", err)
	} else if ran {
		t.Fatalf("%v: %s", exit, out)
	}
}

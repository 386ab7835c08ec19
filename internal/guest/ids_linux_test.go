package guest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/cofferhq/coffer/internal/testbed"
)

// In a namespace that has no root, a program that belongs to root outside gives nobody
// its rights, and so is of no help.
func TestHelperOfAnotherRoot(t *testing.T) {
	const inside = "COFFER_TEST_HELPER"
	path, err := HelperPath("sh")
	if os.Getenv(inside) != "" {
		if err == nil {
			t.Fatalf("%s is taken for a help", path)
		}
		return
	}
	if info, err := os.Stat("/bin/sh"); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Skipf("seen from here, the system's programs do not belong to root: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/proc/self/exe", "-test.run=^TestHelperOfAnotherRoot$")
	c.Env = append(os.Environ(), inside+"=1")
	c.SysProcAttr = testbed.Namespaces(t, 0)
	c.SysProcAttr.UidMappings[0].ContainerID = 1000
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

package gitbridge

import (
	"os/exec"
	"runtime"
	"syscall"
)

// runMortal runs a command that does not outlive us: when we are killed it is told to end,
// and so cleans up after itself. The kernel counts the thread that starts it for us.
func runMortal(c *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.SysProcAttr.Pdeathsig = syscall.SIGTERM
	return c.Run()
}

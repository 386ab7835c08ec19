package git

import (
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// mostMemory is what one git on the host may have for itself. Commits of a thousand bytes can
// name trees of a billion files, and packs of a thousand bytes files of any size: git would
// read them until the host has no memory left, whatever the sandbox's own limit is. Files
// that git maps, such as packs, do not count. Tests have less.
var mostMemory uint64 = 4 << 30

// start starts git, with bounded memory. What git starts is bounded, too.
func start(c *exec.Cmd) error {
	err := c.Start()
	if err == nil {
		// If this fails, git has ended.
		_ = unix.Prlimit(c.Process.Pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: mostMemory, Max: mostMemory}, nil)
	}
	return err
}

// runMortal runs a command that is told to end when we are killed, and so cleans up after
// itself. To the kernel, we are the thread that starts it.
func runMortal(c *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.SysProcAttr.Pdeathsig = syscall.SIGTERM
	if err := start(c); err != nil {
		return err
	}
	return c.Wait()
}

// changed is when anything about a file changed, which programs cannot set.
func changed(st *syscall.Stat_t) int64 { return st.Ctim.Nano() }

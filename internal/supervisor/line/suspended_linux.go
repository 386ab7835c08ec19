package line

import (
	"syscall"

	"github.com/cofferhq/coffer/internal/halt"
	"github.com/cofferhq/coffer/internal/sandbox"
	"golang.org/x/sys/unix"
)

// Process is the process of the supervisor at the other end of a socket, or 0 if the kernel
// does not say.
func Process(c syscall.Conn) (pid int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}

// Suspended says whether the supervisor of a sandbox is stopped, as a run is by Ctrl-Z. Then it
// answers nobody. Who listens at a socket the kernel tells, before anybody has answered.
func Suspended(sb *sandbox.Sandbox) bool {
	l, err := Connect(sb)
	if err != nil {
		return false
	}
	defer l.Close()
	return halt.Here.Stopped(Process(l.first))
}

package wire

import (
	"bytes"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// PeerPID is the process at the other end of a socket, or 0 if the kernel does not say.
func PeerPID(c syscall.Conn) (pid int) {
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

// Suspended says whether the supervisor of a sandbox is stopped, as a run is by Ctrl-Z, and so
// answers nobody. The kernel knows who listens on a socket before anybody has answered.
func Suspended(at Place) bool {
	l, err := Connect(at)
	if err != nil {
		return false
	}
	defer l.Close()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", PeerPID(l.first)))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return len(state) > 0 && state[0] == 'T'
}

package line

import (
	"bytes"
	"fmt"
	"os"

	"github.com/cofferhq/coffer/internal/sandbox"
	"golang.org/x/sys/unix"
)

// Suspended says whether the supervisor of a sandbox is stopped, as a run is by Ctrl-Z. Then it
// answers nobody. Who listens at a socket the kernel tells, before anybody has answered.
func Suspended(sb *sandbox.Sandbox) bool {
	l, err := Connect(sb)
	if err != nil {
		return false
	}
	defer l.Close()
	raw, err := l.first.SyscallConn()
	if err != nil {
		return false
	}
	pid := int32(0)
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = cred.Pid
		}
	})
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return err == nil && ok && bytes.HasPrefix(rest, []byte("T "))
}

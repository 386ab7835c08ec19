package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"sync"

	"github.com/cofferhq/coffer/internal/sandbox"
	"golang.org/x/sys/unix"
)

// trusted checks who is at the other end of a socket: the same user, and not from
// inside a sandbox, where the same id exists too. The socket is nowhere to be found
// in there; this is the second wall.
func trusted(c *net.UnixConn) error {
	cred, err := peer(c)
	if err != nil {
		return err
	}
	if int(cred.Uid) != os.Getuid() {
		return fmt.Errorf("user %d", cred.Uid)
	}
	ours, err := ownNamespace()
	if err != nil {
		return err
	}
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", cred.Pid))
	if err != nil {
		return fmt.Errorf("process %d: %w", cred.Pid, err)
	}
	if ours != theirs {
		return fmt.Errorf("process %d is in another namespace", cred.Pid)
	}
	return nil
}

// outside is trusted for who must not be in a jail either. A jail may have no process
// namespace of its own, but its mounts always are.
func outside(c *net.UnixConn) error {
	if err := trusted(c); err != nil {
		return err
	}
	cred, err := peer(c)
	if err != nil {
		return err
	}
	ours, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return err
	}
	if theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", cred.Pid)); err != nil || ours != theirs {
		return fmt.Errorf("process %d has mounts of its own", cred.Pid)
	}
	return nil
}

// ownNamespace names the pid namespace that this process is in, for good.
var ownNamespace = sync.OnceValues(func() (string, error) { return os.Readlink("/proc/self/ns/pid") })

// KillHung kills a supervisor that holds a sandbox but does not answer. The kernel
// remembers who opened the socket that we reach it by.
func KillHung(sb *sandbox.Sandbox) error {
	path, release, err := sb.Socket()
	if err != nil {
		return err
	}
	defer release()
	c, err := net.Dial("unix", path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has closed its door already: it is ending
	}
	if err != nil {
		return fmt.Errorf("find the supervisor of sandbox %s: %w", sb.Name, err)
	}
	defer c.Close()
	cred, err := peer(c.(*net.UnixConn))
	if err != nil {
		return err
	}
	if int(cred.Uid) != os.Getuid() || cred.Pid <= 1 {
		return fmt.Errorf("the supervisor of sandbox %s is not ours", sb.Name)
	}
	return unix.Kill(int(cred.Pid), unix.SIGKILL)
}

// peer is who is at the other end of a socket.
func peer(c *net.UnixConn) (cred *unix.Ucred, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	if e := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); e != nil {
		return nil, e
	}
	return cred, err
}

// keepDescriptors keeps those that our caller's shell left open to us from a supervisor,
// which outlives us: a lock or a pipe would stay taken until the sandbox is idle.
func keepDescriptors() error {
	return unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
}

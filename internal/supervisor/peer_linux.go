package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"sync"

	"github.com/cofferhq/coffer/internal/confine"
	"github.com/cofferhq/coffer/internal/sandbox"
	"golang.org/x/sys/unix"
)

// trusted checks who is at the other end of a socket: the same user, and neither from
// inside a sandbox, where the same id exists too, nor from a jail. The socket is nowhere to
// be found in there, unless the user opened a jail; this is the second wall.
func trusted(c *net.UnixConn) error {
	cred, process, err := peer(c)
	if err != nil {
		return err
	}
	if process >= 0 {
		defer unix.Close(process)
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
	// A jail may have no process namespace of its own.
	jailed, err := confine.Marked(int(cred.Pid))
	if err != nil {
		return err
	}
	if jailed {
		return fmt.Errorf("process %d is in a jail", cred.Pid)
	}
	// Had it ended meanwhile, we might have looked at another one of the same number.
	if process >= 0 {
		if err := unix.PidfdSendSignal(process, 0, nil, 0); err != nil {
			return fmt.Errorf("process %d: %w", cred.Pid, err)
		}
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
	cred, process, err := peer(c.(*net.UnixConn))
	if err != nil {
		return err
	}
	if process >= 0 {
		defer unix.Close(process)
	}
	if int(cred.Uid) != os.Getuid() || cred.Pid <= 1 {
		return fmt.Errorf("the supervisor of sandbox %s is not ours", sb.Name)
	}
	return unix.Kill(int(cred.Pid), unix.SIGKILL)
}

// peer is who is at the other end of a socket, as an id and, where the kernel has that (from
// Linux 6.5 on), as a descriptor, which goes on to mean the same process. It is -1 otherwise.
func peer(c *net.UnixConn) (cred *unix.Ucred, process int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, -1, err
	}
	process = -1
	if e := raw.Control(func(fd uintptr) {
		if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err != nil {
			return
		}
		if p, perr := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD); perr == nil {
			process = p
		} else if perr != unix.ENOPROTOOPT {
			err = fmt.Errorf("process %d: %w", cred.Pid, perr) // it is gone
		}
	}); e != nil {
		return nil, -1, e
	}
	return cred, process, err
}

// keepDescriptors keeps those that our caller's shell left open to us from a supervisor,
// which outlives us: a lock or a pipe would stay taken until the sandbox is idle.
func keepDescriptors() error {
	return unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
}

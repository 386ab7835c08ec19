package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/cofferhq/coffer/internal/confine"
	"golang.org/x/sys/unix"
)

// trusted checks the process at the other end of a socket: the same user, and neither inside a
// sandbox, where the same id exists too, nor in a jail. The socket is nowhere to be found in
// there, unless the user opened a jail; this is the second wall.
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
	// If it has ended meanwhile, the number may be another process's.
	if process >= 0 {
		if err := unix.PidfdSendSignal(process, 0, nil, 0); err != nil {
			return fmt.Errorf("process %d: %w", cred.Pid, err)
		}
	}
	return nil
}

// ownNamespace names the pid namespace of this process.
var ownNamespace = sync.OnceValues(func() (string, error) { return os.Readlink("/proc/self/ns/pid") })

// peer is the process at the other end of a socket, as an id and, from Linux 6.5 on, as a
// descriptor that goes on to mean the same process; -1 otherwise.
func peer(c syscall.Conn) (cred *unix.Ucred, process int, err error) {
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

// supervisorOf finds the process that listens on a place's socket. The kernel knows it before
// anybody has answered.
func supervisorOf(at Place) (*unix.Ucred, error) {
	l, err := Connect(at)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	cred, process, err := peer(l.first)
	if process >= 0 {
		unix.Close(process)
	}
	return cred, err
}

// Suspended says whether the supervisor of a sandbox is stopped, as a run is by Ctrl-Z, and so
// answers nobody.
func Suspended(at Place) bool {
	cred, err := supervisorOf(at)
	if err != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cred.Pid))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return len(state) > 0 && state[0] == 'T'
}

// KillHung kills a supervisor that holds a sandbox but does not answer.
func KillHung(at Place) error {
	cred, err := supervisorOf(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has removed its socket already: it is ending
	}
	if err != nil {
		return fmt.Errorf("find the supervisor: %w", err)
	}
	if int(cred.Uid) != os.Getuid() || cred.Pid <= 1 {
		return errors.New("the supervisor is not ours")
	}
	return unix.Kill(int(cred.Pid), unix.SIGKILL)
}

// PeerPID is the process at the other end of a socket, or 0 if it is not known.
func PeerPID(c syscall.Conn) int {
	cred, process, err := peer(c)
	if process >= 0 {
		unix.Close(process)
	}
	if err != nil {
		return 0
	}
	return int(cred.Pid)
}

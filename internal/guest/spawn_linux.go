package guest

import (
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Process is a guest agent that waits for its orders.
type Process struct {
	PID     int
	IDs     IDs
	Control *net.UnixConn // the control stream
	Said    *os.File      // what it prints
}

// Start starts a guest agent in namespaces of its own, with its ids.
func Start() (*Process, error) {
	p := &Process{IDs: Whoever()}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	said, say, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer say.Close()
	sys := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
			unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		Setsid: true,
	}
	if !p.IDs.Helper {
		sys.UidMappings, sys.GidMappings = p.IDs.UIDs, p.IDs.GIDs
	}
	if p.IDs.Shift {
		sys.GidMappingsEnableSetgroups = true
		sys.Credential = &syscall.Credential{Uid: 0, Gid: 0} // and no groups of the host
	} else {
		// With an id other than 0, capabilities survive exec only as ambient ones.
		sys.AmbientCaps = Capabilities()
	}
	p.PID, p.Control, err = Spawn([]string{Name}, []uintptr{null.Fd(), say.Fd(), say.Fd()}, sys)
	if err == nil && p.IDs.Helper {
		if err = Grant(p.IDs, p.PID); err != nil {
			p.Control.Close()
			End(p.PID)
		}
	}
	if err != nil {
		said.Close()
		return nil, err
	}
	p.Said = said
	return p, nil
}

// Spawn starts this binary under another name, as the first process of namespaces, with a control stream
// as its descriptor 3. If we die, it dies, and with it all processes of its namespace.
func Spawn(args []string, files []uintptr, sys *syscall.SysProcAttr) (pid int, stream *net.UnixConn, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "control"), os.NewFile(uintptr(ends[1]), "control")
	defer ours.Close()
	defer theirs.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		return 0, nil, err
	}
	// The descriptors that our caller's shell left open to us go no further. (Linux 5.11)
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return 0, nil, fmt.Errorf("keep inherited descriptors to ourselves: %w", err)
	}
	sys.Pdeathsig = unix.SIGKILL
	pid, err = syscall.ForkExec("/proc/self/exe", args, &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOTRACEBACK=none", "GOMAXPROCS=2"}, Files: append(files, theirs.Fd()), Sys: sys,
	})
	if err != nil {
		c.Close()
		return 0, nil, fmt.Errorf("create namespaces: %w", err)
	}
	return pid, c.(*net.UnixConn), nil
}

// End kills a child, and waits until it has ended.
func End(pid int) {
	_ = unix.Kill(pid, unix.SIGKILL)
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
			return
		}
	}
}

// Capabilities lists every capability, for a process that is to keep all that it has in
// its namespace.
func Capabilities() []uintptr {
	all := make([]uintptr, unix.CAP_LAST_CAP+1)
	for c := range all {
		all[c] = uintptr(c)
	}
	return all
}

// Grant has the set-user-id helpers write the id maps of a process.
func Grant(who IDs, pid int) error {
	if err := runHelper("newuidmap", pid, who.UIDs); err != nil {
		return err
	}
	return runHelper("newgidmap", pid, who.GIDs)
}

func runHelper(program string, pid int, maps []syscall.SysProcIDMap) error {
	path, err := HelperPath(program)
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	cmd := exec.Command(path, strconv.Itoa(pid))
	for _, m := range maps {
		cmd.Args = append(cmd.Args, strconv.Itoa(m.ContainerID), strconv.Itoa(m.HostID), strconv.Itoa(m.Size))
	}
	cmd.Dir, cmd.Env = "/", []string{}
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %s (%w)", program, strings.TrimSpace(string(said)), err)
	}
	return nil
}

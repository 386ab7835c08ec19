package guest

import (
	"fmt"
	"os"
	"syscall"
)

// networkArg is the agent's argument that asks for a link.
const networkArg = "network"

const namespaces = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
	syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWCGROUP

// A Process is a guest agent that waits for its orders.
type Process struct {
	PID     int
	IDs     IDs
	Network bool     // it makes itself a link to the gateway
	Control *os.File // the control stream, blocking
	Said    *os.File // what it prints
}

// Start starts a guest agent in namespaces of its own, with its ids. With network it makes its
// end of a link before it reads its [Boot] message.
func Start(network bool) (*Process, error) {
	p := &Process{IDs: Whoever(), Network: network}
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	p.Control = os.NewFile(uintptr(ends[0]), "control")
	theirs := os.NewFile(uintptr(ends[1]), "control")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		p.Control.Close()
		return nil, err
	}
	defer null.Close()
	said, say, err := os.Pipe()
	if err != nil {
		p.Control.Close()
		return nil, err
	}
	defer say.Close()
	p.Said = said
	p.PID, err = clone(p, []uintptr{null.Fd(), say.Fd(), say.Fd(), theirs.Fd()})
	if err != nil {
		p.close()
		return nil, err
	}
	if p.IDs.Helper {
		if err := Grant(p.IDs, p.PID); err != nil {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
			_, _ = syscall.Wait4(p.PID, nil, 0, nil)
			p.close()
			return nil, err
		}
	}
	return p, nil
}

func clone(p *Process, files []uintptr) (int, error) {
	// The descriptors that our caller's shell left open to us go no further. (Linux 5.11)
	const closeRange, onExec = 436, 4
	if _, _, err := syscall.RawSyscall(closeRange, 3, 1<<32-1, onExec); err != 0 {
		return 0, fmt.Errorf("keep inherited descriptors to ourselves: %w", err)
	}
	args, env := []string{Name}, []string{"GOTRACEBACK=none", "GOMAXPROCS=2"}
	if p.Network {
		args = append(args, networkArg)
	}
	sys := &syscall.SysProcAttr{
		Cloneflags: namespaces,
		Setsid:     true,
		// If we die, it dies, and with the first process of a namespace all others.
		Pdeathsig: syscall.SIGKILL,
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
	pid, err := syscall.ForkExec("/proc/self/exe", args, &syscall.ProcAttr{Dir: "/", Env: env, Files: files, Sys: sys})
	if err != nil {
		return 0, fmt.Errorf("create namespaces: %w", err)
	}
	return pid, nil
}

// Capabilities lists every capability, for a process that is to keep all that it has in
// its namespace.
func Capabilities() []uintptr {
	const last = 40 // CAP_CHECKPOINT_RESTORE
	all := make([]uintptr, last+1)
	for c := range all {
		all[c] = uintptr(c)
	}
	return all
}

func (p *Process) close() {
	p.Control.Close()
	p.Said.Close()
}

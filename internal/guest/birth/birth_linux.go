package birth

import (
	"os"
	"strconv"
	"syscall"

	"github.com/cofferhq/coffer/internal/alias"
	"github.com/cofferhq/coffer/internal/calm"
	"github.com/cofferhq/coffer/internal/deep"
	"github.com/cofferhq/coffer/internal/steps"
)

const namespaces = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
	syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWCGROUP

// A Process is a guest agent that waits for its orders.
type Process struct {
	PID     int
	IDs     IDs
	Network bool     // it makes itself a link to the gateway
	Control *os.File // the control stream, blocking
	Said    *os.File // what it prints

	granted func() error // waits for the helpers, if it needs them
	child   *steps.List  // must be there for as long as it may not be the guest agent yet
}

// A failure is an error with what was being done, without package fmt.
type failure struct {
	doing string
	err   error
}

func (f *failure) Error() string { return f.doing + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// Err is why the process died before it was the guest agent, as far as that is known.
func (p *Process) Err() error {
	if p.child != nil && p.child.Err() != nil {
		return &failure{"create namespaces", p.child.Err()}
	}
	return nil
}

// Start clones a guest agent. It has its ids when [Process.Granted] says so. With network
// it makes its end of a link before it is told anything else.
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
		p.begin()
	}
	return p, nil
}

func clone(p *Process, files []uintptr) (int, error) {
	// The descriptors that our caller's shell left open to us go no further. (Linux 5.11)
	const closeRange, onExec = 436, 4
	if _, _, err := syscall.RawSyscall(closeRange, 3, 1<<32-1, onExec); err != 0 {
		return 0, &failure{"keep inherited descriptors to ourselves", err}
	}
	args, env := []string{Name}, []string{"GOTRACEBACK=none", "GOMAXPROCS=2", Slack + "=" + strconv.Itoa(int(slack()))}
	if p.Network {
		args = append(args, Network)
	}
	pid, supported, err := cloneShared(p, files, args, env)
	if !supported {
		pid, err = cloneCopied(p.IDs, files, args, env)
	}
	if err != nil {
		return 0, &failure{"create namespaces", err}
	}
	return pid, nil
}

// cloneCopied is for where a process cannot share memory with its parent.
func cloneCopied(who IDs, files []uintptr, args, env []string) (int, error) {
	sys := &syscall.SysProcAttr{
		Cloneflags: namespaces,
		Setsid:     true,
		// If we die, it dies, and with the first process of a namespace all others.
		Pdeathsig: syscall.SIGKILL,
	}
	switch {
	case who.Shift:
		sys.UidMappings, sys.GidMappings = who.UIDs, who.GIDs
		sys.GidMappingsEnableSetgroups = true
		sys.Credential = &syscall.Credential{Uid: 0, Gid: 0} // and no groups of the host
	case who.Helper:
		sys.AmbientCaps = Capabilities()
	default:
		sys.UidMappings, sys.GidMappings = who.UIDs, who.GIDs
		// With an id other than 0, capabilities survive exec only as ambient ones.
		sys.AmbientCaps = Capabilities()
	}
	// Not os.StartProcess, which first tries with a process of its own whether
	// the kernel has pidfds: a third of a millisecond.
	return syscall.ForkExec("/proc/self/exe", args, &syscall.ProcAttr{Dir: "/", Env: env, Files: files, Sys: sys})
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

// early is where the agent comes from that was started before it was asked for.
var early chan result

type result struct {
	process *Process
	err     error
}

func init() {
	if !wanted(os.Args) {
		return
	}
	early = make(chan result, 1)
	calm.Begin()
	go func() {
		deep.Grow()
		p, err := Start(networked(os.Args))
		early <- result{p, err}
	}()
}

// wanted says whether this is going to be a run.
func wanted(argv []string) bool {
	if len(argv) < 3 || argv[1] != "run" || alias.Other(argv[0]) {
		return false
	}
	for _, a := range argv[2:] {
		switch {
		case a == "--" || a == "" || a[0] != '-':
			return true
		case a == "-h" || a == "--help" || a == "-d" || a == "--detach":
			return false
		}
	}
	return true
}

// networked guesses whether a run wants a network. Config may say otherwise, see Take.
func networked(argv []string) bool {
	for n, a := range argv {
		if a == "--" || a == "--net=none" || a == "--net" && n+1 < len(argv) && argv[n+1] == "none" {
			return a == "--"
		}
	}
	return true
}

// Take gives the agent that was started early, if it is what is wanted, or else starts
// one.
func Take(network bool) (*Process, error) {
	if early == nil {
		return Start(network)
	}
	r := <-early
	early = nil
	if r.process != nil && r.process.Network != network {
		r.process.end()
		return Start(network)
	}
	return r.process, r.err
}

// Discard ends the agent that was started early, if nobody took it. It is for who
// exits.
func Discard() {
	if early == nil {
		return
	}
	if r := <-early; r.process != nil {
		r.process.end()
	}
	early = nil
}

// end is for an agent that nobody has spoken to.
func (p *Process) end() {
	syscall.Kill(p.PID, syscall.SIGKILL)
	_ = p.Granted() // by its number, which it has until it is waited for
	kill(p.PID)
	p.close()
}

func kill(pid int) {
	syscall.Kill(pid, syscall.SIGKILL)
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return
		}
	}
}

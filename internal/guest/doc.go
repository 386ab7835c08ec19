// Package guest is the guest agent: the first process inside a sandbox.
//
// It is the same binary as everything else, started by an engine with one
// descriptor, the control stream. It reads a [Boot] message, builds the sandbox from
// within (root file system, host name, loopback), says that it is ready, and from
// then on serves the protocol of package wire: it starts programs, carries their
// bytes, forwards signals, and reaps what dies. When the control stream ends, so does
// it, and the kernel ends everything else with it.
//
// Programs are started from one thread that has given up everything beforehand:
// capabilities, new privileges, system calls, writing outside the sandbox's places. A
// child inherits this from the thread that forks it, so starting a program needs no
// second process and no second start of a Go runtime, which would cost as much as
// everything else together. Root of the sandbox is the exception: it lives in a user
// namespace of its own, nested, and goes through a trampoline (see root_linux.go). Another
// is a program on a terminal, which has a leader (see lead_linux.go): that is how Ctrl-Z
// works.
//
// The agent itself keeps capabilities over its namespaces. Programs inside cannot
// reach it: it is not dumpable, it holds capabilities that they lack (so ptrace and
// /proc/1/mem are refused), and the kernel protects a namespace's first process from
// signals.
package guest

// The names under which the binary is started inside a sandbox.
const (
	Name     = "coffer-guest" // the agent
	RootName = "coffer-root"  // the trampoline to a program run as root
	LeadName = "coffer-lead"  // who leads the session of a program on a terminal
	SudoName = "sudo"         // the shim that asks the agent for root
	GHName   = "gh"           // the shim that asks the host for what is on GitHub
)

// Socket is where the sandbox's own programs reach the agent.
const Socket = "/run/coffer.sock"

// The kinds of links, by the package that opens them.
const (
	KernelLink = "kernel"
	PacketLink = "packet"
)

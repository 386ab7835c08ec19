// Package confine is what a thread gives up before it starts a sandboxed
// program.
//
// The mounts and namespaces of a sandbox decide what a program can see. This
// package decides what it can still ask the kernel for. There are four locks,
// each independent of the others, so that one kernel bug or one forgotten
// mount is not yet a way out:
//
//   - NoNewPrivs: no program started from here gains a privilege by exec, be
//     it through a set-user-id bit or a file capability.
//   - DropCapabilities: root inside is root over a few things only.
//   - Landlock: files outside the given paths cannot be written, whatever the
//     mounts say.
//   - Seccomp: of some 380 system calls those that Docker allows are left, and
//     fewer: no new namespaces, no io_uring, no exotic sockets, no typing into
//     the user's terminal.
//
// # Threads
//
// In Linux all four belong to a thread and are inherited by what it forks.
// The caller is a Go process with many threads that must itself stay free, so
// every function here acts on the calling thread and no other. Call them on a
// goroutine that has called runtime.LockOSThread, start the program from that
// goroutine, and never unlock it: when the goroutine returns, the Go runtime
// destroys the thread instead of giving the crippled thread to somebody else.
// None of the four can be undone.
//
// # Order
//
// Landlock and Seccomp ask for no_new_privs or CAP_SYS_ADMIN. The usual order
// is NoNewPrivs, DropCapabilities, Landlock, Seccomp. A sandbox in which sudo
// has to work leaves NoNewPrivs out and calls DropCapabilities last; the
// filter lets it.
//
// A kernel refuses mount, umount and pivot_root to every thread under
// Landlock. A sandbox that may run containers (SeccompOptions.Nesting) must do
// without Landlock.
//
// # Why not a library
//
// Building and loading a filter with libseccomp or its Go bindings costs
// milliseconds and cgo; here it is put together from a table in microseconds.
// The table follows Docker's profile, see rules. Landlock is three system calls;
// go-landlock applies them to all threads, which is what we must not do.
package confine

import "errors"

// ErrUnsupported is returned when the kernel, as built or as booted, does not
// have the requested lock at all. Nothing was restricted. It is never returned
// for a lock that exists but failed.
var ErrUnsupported = errors.New("not supported by this kernel")

// SeccompOptions widens the system call filter. The zero value is the
// strictest filter and the right one for nearly every sandbox.
type SeccompOptions struct {
	// Nesting allows containers inside the sandbox: mounting, and making and
	// entering namespaces. It gives a program inside the kernel code that
	// most local privilege escalations of recent years went through.
	Nesting bool

	// UserNamespaces allows clone to make a user namespace, and no other. It is
	// for the thread that starts programs as root of the sandbox; such a
	// program installs the strict filter on top before anything else.
	UserNamespaces bool

	// SetID allows set-user-id and set-group-id bits on files. Package
	// managers need it (openssh-client, passwd and sudo have such files, and
	// dpkg stops when it cannot set the bit). It is off by default because a
	// workspace is shared with the host, where such a file outlives the
	// sandbox and runs for anybody.
	SetID bool

	// IgnoreSetID lets chmod to a mode with such a bit succeed without effect, and OneID lets
	// chown do so where no other id exists. They are for root of the sandbox: scripts of
	// packages stop at errors that are of no consequence inside.
	IgnoreSetID bool
	OneID       bool

	// NoExtended refuses to set extended attributes, of which file capabilities are one.
	NoExtended bool

	// The rest narrows the filter, all but the last for a sandbox without namespaces.

	// NoInternet refuses sockets of IPv4 and IPv6.
	NoInternet bool
	// OnlyTCP leaves of the sockets of IPv4 and IPv6 those that LandlockRules.Ports
	// is about: TCP as such, and none that connects without a call to do so.
	OnlyTCP bool
	// NoUnix refuses Unix sockets, but for connected pairs. A filter cannot look
	// at the address that a program connects to, so it is all or nothing.
	NoUnix bool
	// NoTruncate refuses to change the length of a file that is not open for
	// writing, which Landlock overlooks before its third version.
	NoTruncate bool
	// NoAllocate refuses to take room on a disk without filling it: one call could take
	// all there is, before anybody who looks has seen it. Programs are told that the file
	// system cannot do that, and write.
	NoAllocate bool
}

// LandlockRules says what a thread under Landlock may still do. The zero value denies
// all writing, and nothing else.
type LandlockRules struct {
	// Write lists directories, with all that is beneath them, and single
	// files. All must exist. Symbolic links are followed: a path that leads
	// through a directory the sandboxed program could write to earlier must
	// be resolved by the caller first.
	Write []string

	// Read, if there is any, lists what may be read and executed; nothing else may.
	// What is in Write is not readable by itself.
	Read []string
	// List adds directories that may be listed, with all beneath them.
	List []string

	// Scoped keeps signals, and connections to abstract Unix sockets, among the
	// processes under this call of Landlock. (ABI 6)
	Scoped bool
	// NoSockets refuses to connect to Unix sockets by their path, unless they were
	// made under this call of Landlock. (ABI 9)
	NoSockets bool
	// NoPorts refuses to bind and connect TCP sockets (ABI 4), and UDP (ABI 10), but
	// for connecting to Ports by TCP.
	NoPorts bool
	Ports   []PortRange

	// NoLinks refuses paths with a symbolic link in them: somebody may have put it
	// there since the caller looked.
	NoLinks bool
	// ABI, if not zero, is the newest version of Landlock to use, to try what an
	// older kernel would do.
	ABI int
}

// A PortRange is from First to Last, both included.
type PortRange struct{ First, Last uint16 }

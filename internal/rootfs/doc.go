// Package rootfs decides what a sandbox sees as its file system, and builds it.
//
// The work is split at the wall. On the host, [HostView] looks at the machine and
// writes a [Plan]: a flat list of steps, plain data. Inside the new namespaces, the
// guest agent hands the plan to [Assemble], which carries it out top to bottom on an
// empty tmpfs and leaves the old root behind.
//
// The default view is the host's own system directories, read-only, so every tool of
// the machine is there, and nothing else: no homes, no /run, no daemon's state, no
// sockets. An image takes their place where one is asked for ([View]'s Image). Read-only
// binds cost some 30 µs each and an overlay a full millisecond, so nothing is an overlay
// until somebody asks to be root: then [MakeWritable] lays one over each system directory,
// in the running sandbox.
//
// Two directories hold files that a hostile program wrote in an earlier session: the
// workspace and the sandbox's home. Mount points inside them are therefore never
// reached by path. Every target is opened with openat2 and RESOLVE_NO_SYMLINKS, and
// mounts are moved onto that descriptor. The layers of overlays hold such files too;
// they are out of a program's reach but through the overlays, see [Layers].
package rootfs

// A Plan is a root file system as a list of steps. It travels as gob: paths need not be UTF-8, which
// JSON would change, and a mask would be placed elsewhere.
type Plan struct {
	Steps []Step
	// System lists the read-only host directories that become writable for root.
	System []string
	// Writable lists what programs may write to, for the second wall (Landlock).
	Writable []string
	// Owned says that the system directories are an image's, whose files belong to the user.
	Owned bool
	// Volatile is set for throw-away sandboxes, whose layers need no sync to disk.
	Volatile bool
}

// What a Step does.
const (
	Bind     = "bind"     // show Source of the host at Target
	Keep     = "keep"     // use Source of the host for the sandbox's layers
	Scratch  = "scratch"  // an empty directory in memory at Target
	Proc     = "proc"     // a fresh /proc of the sandbox's own processes; Data has lines for its sys/user
	Devpts   = "devpts"   // a terminal file system of its own
	Dir      = "dir"      // a directory
	Closed   = "closed"   // a directory that nobody can list
	Symlink  = "symlink"  // a symbolic link to Data
	Replace  = "replace"  // a read-only file with content Data over Target
	Seed     = "seed"     // a file with content Data at Target, unless there is something
	Write    = "write"    // a new file with content Data
	Copy     = "copy"     // a new file with the content of Source, a path of the sandbox
	Mask     = "mask"     // nothing to see at Target, which may be absent
	Forbid   = "forbid"   // Target cannot be opened; a directory is empty
	Lock     = "lock"     // Target, as it is, read-only and not to be moved
	Pin      = "pin"      // Target, as it is, not to be moved
	Anchor   = "anchor"   // Target, below Data, not to be moved, and no mount in its place
	Overlay  = "overlay"  // a copy-on-write view of Source at Target, layer named Data
	Cgroup   = "cgroup"   // the files of Source, a path of the sandbox, as a control group at Target
	Identify = "identify" // stop unless Target is the directory Dev, Ino
)

// A Step is one thing to do while building the root. Source is a path of the host,
// free of symbolic links; Target one of the sandbox.
type Step struct {
	Do       string
	Source   string
	Target   string
	Data     string
	ReadOnly bool
	Device   bool // Source is a device node
	Shared   bool // the scratch is for all users, like /tmp
	Optional bool // leave out what cannot be had
	Exec     bool // the file to be written is a program
	Create   bool // make the file to be replaced if there is none
	Dev      uint64
	Ino      uint64
	// Mine marks a source that belongs to the caller and must look so inside,
	// whatever ids the sandbox maps.
	Mine bool
	// FD, if not zero, says which descriptor (counted from 1) of those handed to
	// Assemble is the source, already a detached mount.
	FD int
}

// Own is the directory in the sandbox where Coffer keeps its things.
const Own = "/.coffer"

// oldRoot is where the host's root hangs while the new one is built.
const oldRoot = "/.host"

// Empty is an empty directory there.
const Empty = Own + "/empty"

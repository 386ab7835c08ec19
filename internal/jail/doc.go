// Package jail runs a program in place: on this machine as it is, with its own tools,
// at the same paths, but able to change little of it.
//
// The wall is Landlock and a system call filter, which need no root and no namespaces.
// Where user and mount namespaces are to be had they are used in addition, because
// there are things that only they can express: that .git is read-only although
// what is beside it is not, that files outside keep their modes and owners, that a socket is not
// there. What neither layer can do on a host is known before the start (see walls.go):
// it is said, or, in a strict jail, refused.
//
// There are two ways to run:
//
//   - [Namespaces]: a first process in new namespaces builds the root from a plan, as the
//     guest agent does (see package rootfs and inner_linux.go), and starts the program from a
//     confined thread. This process waits, hands signals on, and tidies up.
//   - [Landlock]: this process confines itself and becomes the program. Nobody stays behind.
//
// # Why not an engine
//
// An engine boots a machine and returns a stream to the guest agent in it; terminals,
// signals and exit codes are then spoken over that stream. A jail has no machine and no
// agent: the program inherits this process's terminal, process group, session and
// descriptors, and without namespaces its process id. All that the interface of an engine
// is about would have to be pretended.
package jail

import (
	"github.com/cofferhq/coffer/internal/confine"
	"github.com/cofferhq/coffer/internal/link"
)

// A Layer is how a jail is built.
type Layer string

// The layers.
const (
	Namespaces Layer = "namespaces"
	Landlock   Layer = "landlock"
)

// The networks.
const (
	NetHost  = "host"  // the host's own
	NetNone  = "none"  // nothing, or a loopback interface of its own
	NetRules = "rules" // what rules allow
)

// Rules are the rules of a network, as far as a jail has to do with them. In a network
// namespace of its own all that a program sends comes out of a link, and who has the other
// end decides. Where there is no such namespace, Landlock can keep programs to some ports.
type Rules struct {
	// Connect takes the other end of the link when the program first sends something, and
	// returns how to end that.
	Connect func(link.Link) (end func(), err error)
	// Ports are the ports that the rules allow at all, by TCP. Every says that there is no
	// port that they forbid.
	Ports func() (ports []confine.PortRange, every bool, err error)
	// Must says that the rules have to be kept to the letter, or nothing is run.
	Must bool
}

// A Policy is what a program in a jail may do, as the user asked for it.
type Policy struct {
	Context string   // the directory to work in
	Dir     string   // where the program starts
	Home    string   // the user's home
	Argv    []string // the program
	Env     []string // its whole environment, but for TMPDIR
	Agent   *Agent   // whose state it may write; nil for none

	Write   []string // further places it may write to
	Private bool     // it may read only what it needs
	Read    []string // further places it may read, if private

	Masks []string // lines that say which files are hidden, besides those that are built in

	Nested bool   // repositories further down in the context can be changed
	Net    string // NetHost, NetNone or NetRules
	Rules  *Rules `json:"-"` // for NetRules
	Unix   bool   // Unix sockets, even where those of others cannot be closed

	Strict  bool // refuse to start with any gap in the walls
	Quiet   bool // do not say which gaps there are
	Brief   bool // say so in one line
	Verbose bool // also of those that every host has today
	Explain bool // say so at length, and run nothing
	InPlace bool // become the program

	// What Rules.Ports says, once it was asked.
	ports []confine.PortRange
	every bool

	// What tests pretend about the host.
	abi   int  // an older Landlock
	bare  bool // no /proc of one's own
	bound bool // no network namespace

	ruleless bool // no packet rules in one
}

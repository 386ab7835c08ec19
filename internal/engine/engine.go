// Package engine boots machines. An engine knows nothing of agents, git or policies:
// it takes a [Machine] and returns one control stream to the guest agent inside.
// Everything else is spoken over that stream, once, for every engine.
package engine

import (
	"context"
	"net"
	"os"

	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/link"
	"github.com/cofferhq/coffer/internal/rootfs"
)

// An Engine is one kind of wall.
type Engine interface {
	Name() string
	// Probe says whether this host can run the engine, what it guarantees, and
	// what is missing. It may really boot something, within the context's time.
	Probe(context.Context) Report
	// Boot starts the guest agent inside a new machine. When the process that
	// called Boot dies, so must the machine. A layer that was asked for and
	// cannot be had is an error, never a weaker machine.
	Boot(context.Context, *Machine) (Instance, error)
}

// A Machine is what to boot.
type Machine struct {
	Hostname string
	Root     *rootfs.Plan // the file system
	Limits   *limits.Group
	Nesting  bool // containers inside are allowed
	// SetID lets root of the machine set set-user-id bits: no directory that it
	// can write to is one that others on the host can enter.
	SetID bool
	// NoAllocate has programs take room on a disk by writing only, so that whoever watches
	// over it sees it go.
	NoAllocate bool
	// Network asks for a link. Without one the machine has its loopback interface
	// and nothing else.
	Network bool
}

// An Instance is a machine that runs.
type Instance interface {
	// Control is the stream to the guest agent.
	Control() net.Conn
	// Link carries what the machine sends to the network; nil without one. Whoever
	// boots the machine closes it.
	Link() link.Link
	// Root opens the machine's root directory, as programs inside see it, and says which
	// id of the host the user inside is. What is below it is a stranger's.
	Root() (root *os.File, owner int, err error)
	// Kill ends the machine at once.
	Kill()
	// Done is closed when the machine has ended and nothing is left of it.
	Done() <-chan struct{}
	// Words is what it printed, for when it ended by itself.
	Words() string
}

// A Report is what a host can do with an engine.
type Report struct {
	Usable bool    `json:"usable"`
	Checks []Check `json:"checks"`
}

// A Check is one line of a report.
type Check struct {
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
	Fix    string `json:"fix,omitempty"`
	// Needed says that the engine does not work without it.
	Needed bool `json:"needed,omitempty"`
}

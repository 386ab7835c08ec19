package guest

import (
	"io"

	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/wire"
)

// Boot tells the agent what to build.
type Boot struct {
	Plan     *rootfs.Plan
	Handed   int // how many mounts follow
	Hostname string
	UID      int
	GID      int
	Alone    bool // no other ids are mapped
	Nesting  bool
	Landlock bool
	SetID    bool // root may set set-user-id bits
	Rlimits  []limits.Rlimit
	// FewProcesses says that a limit on processes was asked for.
	FewProcesses bool
	// NoAllocate says that room on a disk can be taken by writing only.
	NoAllocate bool
	// Processors is how many programs see, 0 for all.
	Processors int
	// Grouped says that the sandbox has control groups of its own.
	Grouped bool
}

// Send sends it.
func (b *Boot) Send(w io.Writer) error { return wire.WriteMessage(w, b) }

// Receive reads it.
func (b *Boot) Receive(r io.Reader) error { return wire.ReadMessage(r, wire.MaxRequest, b) }

// Ready is the agent's answer. Error is empty when the sandbox stands.
type Ready struct {
	Error string
	// Link says what kind of link there is, and Sockets how many descriptors
	// follow for it.
	Link    string
	Sockets int
}

// Send sends it.
func (a *Ready) Send(w io.Writer) error { return wire.WriteMessage(w, a) }

// Receive reads it.
func (a *Ready) Receive(r io.Reader) error { return wire.ReadMessage(r, wire.MaxReply, a) }

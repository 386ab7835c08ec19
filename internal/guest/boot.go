package guest

import (
	"bytes"
	"encoding/gob"
	"io"

	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/rootfs"
	"github.com/cofferhq/coffer/internal/wire"
)

// WriteOrders tells a first process what to build.
func WriteOrders(w io.Writer, orders any) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(orders); err != nil {
		return err
	}
	return wire.WriteMessage(w, b.Bytes())
}

// ReadOrders reads what WriteOrders wrote.
func ReadOrders(r io.Reader, orders any) error {
	var b []byte
	if err := wire.ReadMessage(r, wire.MaxRequest, &b); err != nil {
		return err
	}
	return gob.NewDecoder(bytes.NewReader(b)).Decode(orders)
}

// Boot tells the agent what to build.
type Boot struct {
	Plan     *rootfs.Plan
	Handed   int // how many mounts follow
	Hostname string
	UID      int
	GID      int
	Alone    bool // no other ids are mapped
	Network  bool // make its end of a link
	Nesting  bool
	Landlock bool
	SetID    bool // root may set set-user-id bits
	Rlimits  []limits.Rlimit
	// NoAllocate says that room on a disk can be taken by writing only.
	NoAllocate bool
	// Processors is how many programs see, 0 for all.
	Processors int
	// Grouped says that the sandbox has control groups of its own.
	Grouped bool
}

// Ready is the agent's answer. Error is empty when the sandbox stands.
type Ready struct {
	Error string
	// Link says what kind of link there is, and Sockets how many descriptors
	// follow for it.
	Link    string
	Sockets int
}

package guest

import (
	"fmt"
	"io"
	"math"

	"github.com/cofferhq/coffer/internal/guest/wire"
	"github.com/cofferhq/coffer/internal/limits"
	"github.com/cofferhq/coffer/internal/pack"
	"github.com/cofferhq/coffer/internal/rootfs"
)

// Boot tells the agent what to build. It is packed, as its answer is: both ends of every start
// wait for it, and JSON's first use takes them longer than all that is in it.
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
}

// What a message has at most of.
const (
	maxFollowing = 1 << 16
	maxRlimits   = 64
)

// Send sends it.
func (b *Boot) Send(w io.Writer) error {
	m := b.Plan.Pack(make([]byte, 0, 8<<10))
	m = pack.Number(m, uint64(b.Handed))
	m = pack.Text(m, b.Hostname)
	m = pack.Number(m, uint64(b.UID))
	m = pack.Number(m, uint64(b.GID))
	m = pack.Flags(m, b.Alone, b.Nesting, b.Landlock, b.SetID, b.FewProcesses, b.NoAllocate)
	m = pack.Number(m, uint64(len(b.Rlimits)))
	for _, l := range b.Rlimits {
		m = pack.Number(pack.Number(pack.Number(m, uint64(l.Resource)), l.Soft), l.Hard)
	}
	return wire.WritePacked(w, m)
}

// Receive reads it.
func (b *Boot) Receive(from io.Reader) error {
	r, err := wire.ReadPacked(from, wire.MaxRequest)
	if err != nil {
		return err
	}
	*b = Boot{Plan: &rootfs.Plan{}}
	b.Plan.Unpack(r)
	b.Handed, b.Hostname = int(r.Number(maxFollowing)), string(r.Text())
	b.UID, b.GID = int(r.Number(math.MaxUint32)), int(r.Number(math.MaxUint32))
	r.Flags(&b.Alone, &b.Nesting, &b.Landlock, &b.SetID, &b.FewProcesses, &b.NoAllocate)
	if n := r.Count(maxRlimits); n > 0 {
		b.Rlimits = make([]limits.Rlimit, n)
	}
	for i := range b.Rlimits {
		b.Rlimits[i] = limits.Rlimit{Resource: int(r.Number(maxRlimits)), Soft: r.Number(math.MaxUint64), Hard: r.Number(math.MaxUint64)}
	}
	return whole(r)
}

// Ready is the agent's answer. Error is empty when the sandbox stands.
type Ready struct {
	Error string
	// Link says what kind of link there is, and Sockets how many descriptors
	// follow for it.
	Link    string
	Sockets int
}

// Send sends it.
func (a *Ready) Send(w io.Writer) error {
	m := pack.Text(pack.Text(nil, a.Error), a.Link)
	return wire.WritePacked(w, pack.Number(m, uint64(a.Sockets)))
}

// Receive reads it.
func (a *Ready) Receive(from io.Reader) error {
	r, err := wire.ReadPacked(from, wire.MaxReply)
	if err != nil {
		return err
	}
	*a = Ready{Error: string(r.Text()), Link: string(r.Text()), Sockets: int(r.Number(maxFollowing))}
	return whole(r)
}

func whole(r *pack.Reader) error {
	if !r.Done() {
		return fmt.Errorf("%w: it is damaged", wire.ErrMessage)
	}
	return nil
}

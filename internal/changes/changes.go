// Package changes reads what a sandbox did to its copy-on-write workspace, and
// carries it over into the real one when the user says so.
//
// A sandbox sees the user's directory through an overlayfs mounted with the
// option userxattr. The user's directory is the *lower*; what the sandbox wrote
// is in the *upper*, a directory in Coffer's store:
//
//	a file, directory or link       is there in the sandbox (new, or copied up)
//	a whiteout                      the lower entry of this name was removed
//	an opaque directory             nothing of the lower directory shows through
//
// A whiteout is a character device 0/0 or, on newer kernels, an empty file with
// the attribute user.overlay.whiteout in a directory marked opaque="x". Copying
// up happens on the first open for writing, so being in the upper is no proof of
// a change: content, permissions and type are compared with the lower.
//
// [List] gives the changes, [Diff] shows them as text, [Apply] makes them in the
// lower, [Discard] drops them.
//
// # Who is the adversary
//
// Every byte of the upper is the sandbox's: names, link targets, sizes, modes, attributes, device
// nodes, and all of it may change between two system calls. So every path is resolved from the root
// of its tree in one call that takes no symlink, no mount point and no "..", and what was opened is
// what is judged (fstat), not what was listed. The lower gets the same treatment, because a symlink
// that the user or an earlier Apply left there must not lead a write outside.
//
// # What is never applied
//
// Anything in a component that some file system takes for ".git" (git runs what
// it finds there), anything in the place of a file that is hidden from the sandbox
// ([Masked]), devices, FIFOs, sockets, set-user-ID and set-group-ID bits,
// owners and extended attributes. What is left out is reported with a [Reason].
//
// # What a conflict is
//
// An overlay keeps no copy of what the lower was when the sandbox began. What it does have is the
// birth time of the upper entry, which the sandbox cannot set. A lower entry whose ctime (which
// nobody can set) is later was changed after the sandbox took its copy: that is certain, and a
// conflict. Not seen that way is a change made before the sandbox *replaced* the file (write a new
// one and rename, as editors do), since its birth is the replacement's. With [ApplyOptions].Since,
// the time the sandbox first started, these are seen too, at the price of calling it a conflict
// when the user edited first and the sandbox saw the edit. Stamps of an earlier Apply, given back
// in [ApplyOptions].Known, keep Coffer's own writes from being taken for the user's. A directory's
// permissions are never a conflict: its ctime moves with every file made in it.
//
// Text diffs come from rogpeppe/go-internal/diff (the anchored diff of the Go
// project): O(n log n) for any input, so a crafted file cannot stall a diff.
//
// # What deserves a second look
//
// [Review] reads a changed file as a suspicious colleague would. It does not judge: a new
// hook, a task that an editor runs when a folder is opened, an install script, a setting for
// the next agent are all ordinary, and all run on the user's machine, outside of any sandbox,
// without another question. Other things hide: characters that show nothing or turn the text
// around, a link that leads out of the tree, a lock file with a new place to download from.
// It is a pure function of bytes, which are a stranger's.
package changes

import (
	"errors"
	"fmt"
	"time"

	"github.com/cofferhq/coffer/internal/ui"
)

// Kind says what happened to a path.
type Kind int

// The kinds of change. A rename is a deletion and an addition.
const (
	Added       Kind = iota + 1 // in the sandbox, not in the workspace
	Modified                    // same type, other content (and perhaps mode)
	Deleted                     // in the workspace, not in the sandbox
	TypeChanged                 // a file became a directory, a link a file, …
	ModeChanged                 // same content, other permissions
)

func (k Kind) String() string {
	return [...]string{"", "added", "modified", "deleted", "type changed", "mode changed"}[k]
}

// Reason says why a change cannot be applied.
type Reason string

// The reasons for leaving a change out.
const (
	SkipGit        Reason = "git"           // a component is .git, or taken for it somewhere
	SkipDevice     Reason = "device"        // block or character device
	SkipFIFO       Reason = "fifo"          // named pipe
	SkipSocket     Reason = "socket"        // Unix socket
	SkipUnreadable Reason = "unreadable"    // permissions or another owner; see Detail
	SkipTooLong    Reason = "path too long" // longer than any program could open by name
	SkipMount      Reason = "mount point"   // another file system is mounted there in the workspace
	SkipReserved   Reason = "reserved name" // a name Apply uses for its temporary files
	SkipBusy       Reason = "changing"      // replaced while it was being read
	SkipNotEmpty   Reason = "not empty"     // a deleted directory with something in it that stays
	SkipMasked     Reason = "masked"        // the workspace's own is hidden from the sandbox
)

// Masked says whether something of the workspace is hidden from the sandbox: such a thing
// is neither shown nor changed by what the sandbox did in its place. It may be nil.
type Masked func(path string, dir bool) bool

// Change is one path that differs between workspace and sandbox.
type Change struct {
	// Path is relative to the workspace, separated by slashes, in the raw bytes
	// the sandbox chose: quote it (Quote) or escape it before showing it.
	Path string
	Kind Kind

	// Target is what a new or changed symlink points to, in raw bytes.
	Target string

	// Skipped is why Apply leaves this path alone; empty when it does not.
	Skipped Reason
	// Detail says more about Skipped, for people ("mode 0000, owner 100000").
	Detail string
}

// Errors with a meaning of their own.
var (
	// ErrPlanted: the upper has an overlay attribute that neither the kernel
	// nor Coffer would put there with our mount options. Nothing is listed, as
	// the sandbox (or someone else) tried to make the upper mean something else.
	ErrPlanted = errors.New("planted overlay attribute")

	// ErrTooMany: more changes than can sensibly be shown or held in memory.
	ErrTooMany = errors.New("too many changes")

	// ErrChanged: an entry was no longer what had been listed when its turn
	// came: the sandbox is running, or the user is working in the workspace.
	ErrChanged = errors.New("changed meanwhile")

	// ErrBusy: another Apply holds this workspace.
	ErrBusy = errors.New("another apply is running in this workspace")

	// ErrNoMatch: a path asked for has no change at or below it.
	ErrNoMatch = errors.New("no change at this path")

	// ErrUnsupported: this system has no overlayfs.
	ErrUnsupported = errors.New("changes can be read on Linux only")
)

// DiffOptions says what Diff shows.
type DiffOptions struct {
	// Paths limits the diff to these paths and what is below them.
	Paths []string
	// Masked is what must not be shown.
	Masked Masked
}

// ApplyOptions says what Apply does.
type ApplyOptions struct {
	// Paths limits Apply to these paths and what is below them, component by
	// component ("src" is not "src2"). New directories above come along.
	Paths []string
	// Force applies paths in conflict too: the user's version is overwritten.
	Force bool
	// DryRun does everything but write.
	DryRun bool
	// Since, if set, makes every workspace entry changed after it a conflict.
	// Use the time the sandbox was first started on this upper.
	Since time.Time
	// Known has the Stamps of all earlier Applies from this upper, merged.
	Known Stamps
	// Clear removes what was applied from the upper. The overlay must not be
	// mounted: the kernel does not define what it would show afterwards.
	Clear bool
	// Masked is what must stay as it is.
	Masked Masked
}

// Result is what Apply did, also when it failed half way.
type Result struct {
	Applied   []Change // done, in the order it was done (DryRun: would be)
	Skipped   []Change // selected, but not applicable
	Conflicts []string // overwritten with Force, otherwise the reason nothing was done
	Notes     []Note   // applied, but the user should know
	Stamps    Stamps   // keep, and hand to the next Apply as Known
}

// Note is something to know about an applied path.
type Note struct {
	Path string
	Text string // one line, safe for a terminal
}

// Stamp identifies one state of a workspace entry.
type Stamp struct {
	Inode uint64 `json:"inode"`
	Ctime int64  `json:"ctime"` // nanoseconds since 1970
}

// Stamps maps a path, quoted by Quote so that it survives JSON, to the state in
// which Apply left it.
type Stamps map[string]Stamp

// ConflictError is returned when paths changed on both sides; nothing was done.
type ConflictError struct{ Conflicts []string }

func (e *ConflictError) Error() string {
	var names []string
	for _, path := range e.Conflicts {
		names = append(names, Quote(path))
	}
	return fmt.Sprintf("%d changed in the workspace too, nothing applied: %s", len(names), ui.Few(names))
}

// PartialError is returned when Apply failed after it had begun to write.
// Every path is in its old or its new state; running Apply again continues.
type PartialError struct {
	Path    string   // where it failed
	Applied []string // done before that
	Err     error
}

func (e *PartialError) Error() string {
	done := "nothing"
	if n := len(e.Applied); n > 0 {
		done = fmt.Sprintf("%d paths, the last: %s", n, Quote(e.Applied[n-1]))
	}
	return fmt.Sprintf("apply %s: %v (applied before: %s)", Quote(e.Path), e.Err, done)
}

func (e *PartialError) Unwrap() error { return e.Err }

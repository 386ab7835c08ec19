package changes

import (
	"fmt"
	"strings"
	"time"
)

// DiffOptions says what Diff shows.
type DiffOptions struct {
	// Paths limits the diff to these paths and what is below them.
	Paths []string
	// MaxFileSize is the size from which a file's content is not shown, only
	// that it differs. Zero means 1 MiB. It bounds memory: both sides are held.
	MaxFileSize int64
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
	Applied   []Change   // done, in the order it was done (DryRun: would be)
	Skipped   []Change   // selected, but not applicable
	Conflicts []Conflict // overwritten with Force, otherwise the reason nothing was done
	Notes     []Note     // applied, but the user should know
	Stamps    Stamps     // keep, and hand to the next Apply as Known
}

// Conflict is a path that changed on both sides.
type Conflict struct {
	Path string
	// Changed is the workspace entry's ctime, Taken when the sandbox got its own.
	Changed, Taken time.Time
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
type ConflictError struct{ Conflicts []Conflict }

func (e *ConflictError) Error() string {
	const most = 5
	var names []string
	for _, c := range e.Conflicts {
		if len(names) == most {
			names = append(names, "…")
			break
		}
		names = append(names, Quote(c.Path))
	}
	return fmt.Sprintf("%d changed in the workspace too, nothing applied: %s",
		len(e.Conflicts), strings.Join(names, ", "))
}

// PartialError is returned when Apply failed after it had begun to write.
// Every path is in its old or its new state; running Apply again continues.
type PartialError struct {
	Path    string   // where it failed
	Applied []string // done before that
	Err     error
}

func (e *PartialError) Error() string {
	const most = 5
	done := "nothing"
	if n := len(e.Applied); n > 0 {
		var names []string
		for _, p := range e.Applied[max(0, n-most):] {
			names = append(names, Quote(p))
		}
		done = fmt.Sprintf("%d paths, the last: %s", n, strings.Join(names, ", "))
	}
	return fmt.Sprintf("apply %s: %v (applied before: %s)", Quote(e.Path), e.Err, done)
}

func (e *PartialError) Unwrap() error { return e.Err }

package mask

import (
	"fmt"
	"path"
	"strings"
)

// Limits on a tree.
const (
	maxEntries = 4_000_000
	// MaxHidden is how many files can be hidden: each takes a mount.
	MaxHidden = 10_000
)

// A FullError says that too many files match.
type FullError struct {
	Root string
	Most string // the directory that has the most of them, from the root
}

func (e *FullError) Error() string {
	return fmt.Sprintf("more than %d files in %s match the masks, most of them in %s, and each takes a mount", MaxHidden, e.Root, path.Join(e.Root, e.Most))
}

func (e *FullError) Is(target error) bool { return target == ErrTooMany }

// most is the directory at the root that has the most of what is hidden.
func most(list []Found) (dir string) {
	n := map[string]int{}
	for _, f := range list {
		top, _, below := strings.Cut(f.Path, "/")
		if !below {
			top = ""
		}
		if n[top]++; n[top] > n[dir] {
			dir = top
		}
	}
	return dir
}

// A CrowdError says that a tree is too large to be looked through.
type CrowdError struct{ Root string }

func (e *CrowdError) Error() string {
	return fmt.Sprintf("there are more than %d files in %s, too many to look for those to hide", maxEntries, e.Root)
}

// A FileError is about a file in the tree that says what to hide, and cannot be taken.
type FileError struct{ Root, File, Why string }

func (e *FileError) Error() string {
	return fmt.Sprintf("%s does not say what to hide: %s", path.Join(e.Root, e.File), e.Why)
}

// A Found is something to hide.
type Found struct {
	Path string // from the root of the tree
	Dir  bool
	Rule string // as it was written
	From string // where
	// Which tells the file from another one that takes its place later.
	Which Which
}

// Which is a file's number on its device, and when it was made: numbers are used again.
type Which struct {
	Dev  uint64
	Ino  uint64
	Born int64
}

// unreadable is the rule for directories that we cannot look into. Whoever may change
// their modes could: a program inside may.
var unreadable = Rule{Text: "a directory that cannot be looked into", From: Builtin}

// A Result is what a look through a tree has found.
type Result struct {
	Hidden []Found
	// Rules are the directories that have a file which says what to hide.
	Rules []string
	// Repositories are what is called .git further down: directories, and files that lead to
	// one.
	Repositories []Found
}

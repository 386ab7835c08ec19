package mask

import (
	"fmt"
	"path"
	"strings"
)

const (
	maxEntries = 4_000_000 // of a tree
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

// most is the directory at the root that has the most hidden files.
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

// A CrowdError says that a tree has too many files to look at.
type CrowdError struct{ Root string }

func (e *CrowdError) Error() string {
	return fmt.Sprintf("there are more than %d files in %s, too many to look for those to hide", maxEntries, e.Root)
}

// A FileError is about a .sandboxignore in the tree that cannot be read.
type FileError struct{ Root, File, Why string }

func (e *FileError) Error() string {
	return fmt.Sprintf("%s does not say what to hide: %s", path.Join(e.Root, e.File), e.Why)
}

// A SlowError says that lines take too long to match for all files of a tree.
type SlowError struct {
	Root string
	From string // the line, if it is one
}

func (e *SlowError) Error() string {
	if e.From == "" {
		return fmt.Sprintf("the lines that say what to hide are too many for the files in %s", e.Root)
	}
	return fmt.Sprintf("%s: the line is too hard to match for the files in %s", e.From, e.Root)
}

// Whoever writes a workspace can write many lines that are hard to match, and files to match
// them with. So steps are counted, not time, to get the same answer each time: an entry that
// takes too many is hidden, and a tree that does is refused.
const (
	maxEach = 1 << 18 // for one entry
	maxAll  = 1 << 26 // for a tree: about a second
	perFile = 256     // and so many more for each entry
)

// effort is what a look through a tree took.
type effort struct {
	steps, entries int
	slow           *Rule // one that took too many
}

// excess is the error for too much effort.
func (e *effort) excess(root string) error {
	switch {
	case e.entries > maxEntries:
		return &CrowdError{root}
	case e.steps <= maxAll+perFile*e.entries:
		return nil
	case e.slow != nil:
		return &SlowError{root, e.slow.From}
	}
	return &SlowError{Root: root}
}

// A Found is something to hide.
type Found struct {
	Path  string // from the root of the tree
	Dir   bool
	Rule  string // as it was written
	From  string // where
	Which Which  // tells the file from one that replaces it later
	// Bare says of a repository that its directory is itself one that git takes for a git directory.
	Bare bool
}

// Which is a file's number on its device, and when it was made: numbers are reused.
type Which struct {
	Dev  uint64
	Ino  uint64
	Born int64
}

// A Result is what a look through a tree has found.
type Result struct {
	Hidden []Found
	Rules  []string // directories that have a .sandboxignore
	// Settings are the entries of such a name: see [Settings].
	Settings []string
	// Repositories are the entries called .git: directories, and files that lead to one; and the
	// HEAD of directories without one that git takes for such.
	Repositories []Found
}

// Watching is what [Tree.Watch] reports to.
type Watching struct {
	// Shared says that a sandbox makes files in this very tree. As the kernel does not tell who
	// made a file, one that gives nothing away is left alone: see [Tree.Harmless].
	Shared bool
	// Told is called for what is to be hidden. The same may be reported again.
	Told func([]Found)
	// Repository, if set, is called for each repository that is seen, maybe more than once.
	Repository func(Found)
	// Blind, if set, is called when not all of the tree can be watched, with what to do about it.
	Blind func(sentence string)
}

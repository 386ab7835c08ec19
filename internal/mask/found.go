package mask

// Limits on a tree.
const (
	maxEntries = 4_000_000
	// MaxHidden is how many files can be hidden: each takes a mount.
	MaxHidden = 10_000
)

// A Found is something to hide.
type Found struct {
	Path string // from the root of the tree
	Dir  bool
	Rule string // as it was written
	From string // where
	// Which tells the file from another one that takes its place later.
	Which Which
}

// Which is a file's number and when it was made: numbers are used again.
type Which struct {
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
	// Dirs are the directories that were looked into, if they were asked for.
	Dirs []string
}

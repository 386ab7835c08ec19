package changes

// A Level says how much a finding wants to be looked at.
type Level string

// High is for what runs by itself, or hides; Medium for what runs when asked; Low for what
// is good to know.
const (
	High   Level = "high"
	Medium Level = "medium"
	Low    Level = "low"
)

// A Finding is something to look at.
type Finding struct {
	Level Level  `json:"level"`
	Rule  string `json:"rule"`
	Path  string `json:"path"` // raw bytes: to be quoted when shown
	Line  int    `json:"line,omitempty"`
	What  string `json:"what"` // may contain what the file says, bounded
}

// maxPerFile bounds what is said about one file, and maxText what is quoted of it.
const (
	maxPerFile = 20
	maxText    = 120
)

// Review looks at what a change to one file adds.
func Review(f File) []Finding {
	l := &look{File: f}
	if f.New.Mode == 0 {
		return nil // what is gone does nothing
	}
	for _, rule := range rules {
		rule(l)
	}
	return l.found
}

// ReviewOdd looks at an entry that is no file.
func ReviewOdd(path, what string) []Finding {
	switch what {
	case "git":
		return []Finding{{High, "nested-git", path, 0, "a git directory among the files: git, and editors that use it, run what its config says"}}
	case "unreadable", "too deep":
		return []Finding{{Medium, "unreadable", path, 0, "cannot be read (" + what + "), so it was not looked at"}}
	}
	return []Finding{{Low, "special", path, 0, "is a " + what}}
}

// ReviewPassing looks at a content that a commit brought and a later one removed: a merge brings it into
// the user's history.
func ReviewPassing(path string, text []byte) []Finding {
	l := &look{File: File{Path: path, New: Side{Mode: 0o100644, Text: text}}}
	secrets(l)
	for i := range l.found {
		l.found[i].What += ", in the history of the branch, not in the last commit"
	}
	return l.found
}

// look is at one file.
type look struct {
	File
	found []Finding
	added []line // cached
	split bool
}

// A line that was added.
type line struct {
	n    int
	text string
}

func (l *look) find(level Level, rule string, n int, what string) {
	if len(l.found) < maxPerFile {
		l.found = append(l.found, Finding{level, rule, l.Path, n, what})
	}
}

// rules are all there are, in the order in which they speak.
var rules = []func(*look){
	oddNames, programs, places, manifests, submodules, attributes, downloads, unseen, secrets,
}

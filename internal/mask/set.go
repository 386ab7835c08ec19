package mask

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A Set says what of one tree is hidden. It may be asked by several at once.
type Set struct {
	// prefix leads from the directory that the repository's rules are about to the
	// tree, when that is only a part of it.
	prefix string
	own    *list // built in, and the user's
	wish   *list // the repository's, agreed to

	found atomic.Pointer[additions]
	mu    sync.Mutex // held by who adds
}

// additions are rules from files in the tree. They hide, and show nothing but what they
// hide themselves. Nobody changes them once they are in force.
type additions struct {
	lists []*list // the first is of the start; each of the others of one file, later
	later bool
	known map[string]string // what each file said last, by its directory
	count int
	// named are names of directories that rules speak of: those of dependencies are
	// looked into if they are among them.
	named map[string]bool
}

// ErrTooMany is for more rules than anybody writes, or more files than can be hidden.
var ErrTooMany = errors.New("there are too many")

// maxLater bounds how many files, and versions of files, are taken while a sandbox runs.
const maxLater = 64

// NewSet makes a set for a tree of rules of the user's own and of the repository. prefix
// is the tree's place in the repository, "" if it is all of it.
func NewSet(own, wish []Rule, prefix string) *Set {
	s := &Set{prefix: prefix, own: newList(append(slices.Clip(builtin()), own...)), wish: newList(wish)}
	a := &additions{known: map[string]string{}, named: map[string]bool{}}
	for _, r := range append(slices.Clip(own), wish...) {
		a.name(r)
	}
	s.found.Store(a)
	return s
}

// name notes which directories a rule speaks of.
func (a *additions) name(r Rule) {
	if r.Negated {
		return
	}
	for part := range strings.SplitSeq(r.base+"/"+r.glob.pattern, "/") {
		if Dependencies[part] {
			a.named[part] = true
		}
	}
}

// Add adds the rules of a file that was found in the tree, in the directory dir of it. It
// says whether there is anything new in them. Rules that have come this way stay, even if
// the file loses them. What is read while the tree is first looked through counts
// together, as for git: a file further down may show what one further up hides.
func (s *Set) Add(dir, text string) (fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.found.Load()
	if old.known[dir] == text {
		return false, nil
	}
	rules, err := Parse(text, s.at(dir), join(dir, FileName))
	if old.count+len(rules) > MaxRules || old.later && len(old.lists) > maxLater {
		return false, ErrTooMany
	}
	a := &additions{lists: slices.Clone(old.lists), later: old.later, known: maps.Clone(old.known), named: maps.Clone(old.named), count: old.count + len(rules)}
	a.known[dir] = text
	if a.later || len(a.lists) == 0 {
		a.lists = append(a.lists, newList(rules))
	} else {
		a.lists[0] = newList(append(slices.Clone(a.lists[0].rules), rules...))
	}
	for _, r := range rules {
		a.name(r)
	}
	s.found.Store(a)
	return len(rules) > 0, err
}

// Seal ends the first look: whatever is added from now on stands for itself.
func (s *Set) Seal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := *s.found.Load()
	a.later = true
	s.found.Store(&a)
}

func (s *Set) at(path string) string {
	if s.prefix != "" {
		return strings.TrimSuffix(s.prefix+"/"+path, "/")
	}
	return path
}

// A Dir is a directory of the tree about whose entries the set is asked.
type Dir struct {
	s    *Set
	path string // from where the rules' paths begin
	add  *additions
}

// In prepares to ask about entries of a directory.
func (s *Set) In(dir string) Dir { return Dir{s, s.at(dir), s.found.Load()} }

// Decide returns the rule by which an entry is hidden; nil if it is not. The directories
// above it are not: in one that is hidden, everything is. A rule that [Rule.Looks] hides
// the entry only if the look confirms it.
func (d Dir) Decide(name string, dir bool) *Rule {
	for _, l := range d.add.lists {
		if r := l.last(d.path, name, dir); r != nil && !r.Negated {
			return r
		}
	}
	r := d.s.wish.last(d.path, name, dir)
	if r == nil {
		r = d.s.own.last(d.path, name, dir)
	}
	if r == nil || r.Negated {
		return nil
	}
	return r
}

// Enters says whether a directory of this name is looked into.
func (d Dir) Enters(name string) bool {
	return name != ".git" && (!Dependencies[name] || d.add.named[name])
}

// Hides returns the rule by which a path is hidden by its name or by that of a directory
// above it. look is asked about the content of a file, if that counts.
func (s *Set) Hides(path string, dir bool, look func(*Rule) bool) *Rule {
	for i := 0; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		at := strings.LastIndexByte(path[:i], '/')
		in, name, above := s.In(path[:max(at, 0)]), path[at+1:i], i < len(path)
		if above && !in.Enters(name) || name == ".git" {
			return nil
		}
		if r := in.Decide(name, dir || above); r != nil && (!r.Looks() || !above && !dir && look(r)) {
			return r
		}
	}
	return nil
}

// Dependencies are the names of directories that package managers fill. They are not
// looked into unless a rule names them.
var Dependencies = map[string]bool{
	"node_modules": true, "bower_components": true, ".pnpm-store": true, ".yarn": true,
	".venv": true, "venv": true, ".tox": true, ".nox": true, "site-packages": true, "__pypackages__": true,
	"vendor": true, "Pods": true, ".gradle": true,
}

// Shows lists the rules of the repository, negated ones, that may show what is hidden by
// others: those the user has to agree to. It errs on the side of asking.
func Shows(own, wish []Rule) (list []Rule) {
	defaults := builtin()
	hides := slices.DeleteFunc(append(slices.Clone(defaults), own...), func(r Rule) bool { return r.Negated })
	for _, w := range wish {
		if !w.Negated || slices.ContainsFunc(defaults, func(r Rule) bool { return r.Negated && r.Text == w.Text }) {
			continue
		}
		name := lastPart(strings.ToLower(w.glob.pattern))
		if slices.ContainsFunc(hides, func(r Rule) bool { return meet(name, lastPart(strings.ToLower(r.glob.pattern))) }) {
			list = append(list, w)
		}
	}
	return list
}

func lastPart(pattern string) string { return pattern[strings.LastIndexByte(pattern, '/')+1:] }

// meet says whether some name may match both of two patterns. Sets stand for any text.
func meet(a, b string) bool {
	if strings.ContainsAny(a+b, `[\`) {
		return true
	}
	// row[j] says whether a[:i] and b[:j] may match the same.
	row := make([]bool, len(b)+1)
	for i := 0; i <= len(a); i++ {
		next := make([]bool, len(b)+1)
		for j := 0; j <= len(b); j++ {
			switch {
			case i == 0 && j == 0:
				next[j] = true
			case j > 0 && next[j-1] && (b[j-1] == '*' || i > 0 && a[i-1] == '*'):
				next[j] = true
			case i > 0 && row[j] && (a[i-1] == '*' || j > 0 && b[j-1] == '*'):
				next[j] = true
			case i > 0 && j > 0 && row[j-1] && (a[i-1] == b[j-1] || a[i-1] == '?' || b[j-1] == '?'):
				next[j] = true
			}
		}
		row = next
	}
	return row[len(b)]
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

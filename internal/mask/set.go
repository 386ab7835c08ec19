package mask

import (
	"errors"
	"slices"
	"strings"
	"sync"
)

// A Set says what of one tree is hidden. It may be asked by several at once.
type Set struct {
	// prefix leads from the directory that the repository's rules are about to the
	// tree, when that is only a part of it.
	prefix string
	own    *list // built in, and the user's
	wish   *list // the repository's, agreed to

	mu    sync.RWMutex
	found additions
}

// additions are rules from files in the tree that nobody has agreed to. They hide, and show
// nothing but what the very same file hides.
type additions struct {
	lists   map[string][]*list // by directory, from where the rules' paths begin; each version of a file
	known   map[string]string  // what each file said last, by its directory in the tree
	refused []Refused
	count   int
	bytes   int
	later   int
	spare   int // see maxMeet
}

// ErrTooMany is for more rules than anybody writes, or more files than can be hidden.
var ErrTooMany = errors.New("there are too many")

// maxLater bounds how many versions of files are taken while a sandbox runs.
const maxLater = 64

// NewSet makes a set for a tree of rules of the user's own and of the repository. prefix
// is the tree's place in the repository, "" if it is all of it.
func NewSet(own, wish []Rule, prefix string) *Set {
	s := &Set{prefix: prefix, own: newList(append(slices.Clip(builtin()), own...)), wish: newList(wish)}
	s.found = additions{lists: map[string][]*list{}, known: map[string]string{}, spare: maxMeet}
	return s
}

// Add adds the rules of a file that was found in the tree, in the directory dir of it. It
// says whether there is anything new in them. Rules that have come this way stay, even if
// the file loses them.
func (s *Set) Add(dir, text string) (fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &s.found
	if known, ok := a.known[dir]; ok && known == text {
		return false, nil
	}
	at := s.at(dir)
	rules, err := Parse(text, at, join(dir, FileName))
	if a.count += len(rules); a.count > MaxRules || a.later > maxLater {
		return false, ErrTooMany
	}
	if a.bytes += len(text); a.bytes > maxText {
		return false, ErrTooMany
	}
	a.known[dir] = text
	if len(rules) == 0 || s.agreed(at, rules) {
		return false, err
	}
	if shows := s.shows(at, rules); len(shows) > 0 {
		a.refused = append(a.refused, Refused{Dir: at, Text: text, Lines: shows})
	}
	if len(a.lists[at]) > 0 {
		a.later++
	}
	a.lists[at] = append(a.lists[at], newList(rules))
	return true, err
}

func (s *Set) at(path string) string {
	if s.prefix != "" {
		return strings.TrimSuffix(s.prefix+"/"+path, "/")
	}
	return path
}

// A Dir is a directory of the tree about whose entries the set is asked.
type Dir struct {
	s      *Set
	path   string  // from where the rules' paths begin
	found  []*list // of files at this directory and above
	effort *effort // if it is counted
}

// In prepares to ask about entries of a directory.
func (s *Set) In(dir string) Dir {
	d := Dir{s: s, path: s.at(dir)}
	s.mu.RLock()
	defer s.mu.RUnlock()
	d.found = s.found.above(d.path)
	return d
}

// above are the lists of the files at a directory and above it.
func (a *additions) above(dir string) (lists []*list) {
	if len(a.lists) == 0 {
		return nil
	}
	for ; ; dir = dir[:max(strings.LastIndexByte(dir, '/'), 0)] {
		lists = append(lists, a.lists[dir]...)
		if dir == "" {
			return lists
		}
	}
}

// Decide returns the rule by which an entry is hidden; nil if it is not. The directories
// above it are not: in one that is hidden, everything is. A rule that [Rule.Looks] hides
// the entry only if the look confirms it.
func (d Dir) Decide(name string, dir bool) *Rule {
	var own effort
	r := d.decide(name, dir, &own)
	if d.effort != nil {
		d.effort.add(own)
	}
	return r
}

func (d Dir) decide(name string, dir bool, e *effort) *Rule {
	r := d.s.wish.last(d.path, name, dir, e)
	for _, l := range d.found {
		if f := l.last(d.path, name, dir, e); f != nil && !f.Negated && !r.over(f) {
			return f
		}
	}
	own := r
	if r == nil || r.Negated {
		own = d.s.own.last(d.path, name, dir, e)
	}
	if own == nil || own.Negated || r != nil && r.Negated && r.means(own) {
		return nil
	}
	return own
}

// over says that a line that the user agreed to shows what another file hides, because its
// own file is further down: as for git, that one counts.
func (r *Rule) over(found *Rule) bool {
	return r != nil && r.Negated && len(r.base) > len(found.base)
}

// Enters says whether a directory of this name is looked into.
func (d Dir) Enters(name string) bool {
	if name == ".git" || !Dependencies[name] {
		return name != ".git"
	}
	names := func(l *list) bool { return l.named[name] }
	return names(d.s.own) || names(d.s.wish) || slices.ContainsFunc(d.found, names)
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

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

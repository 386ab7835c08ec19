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

// additions are rules from files in the tree. They hide, and show nothing but what they
// hide themselves.
type additions struct {
	// first are those of the first look, by directory from where the rules' paths begin.
	// As for git, the file that is furthest down counts, and in it the last line.
	first map[string]*list
	// later are files, and versions of files, that came afterwards. Each stands for itself.
	later  []*list
	sealed bool
	known  map[string]string // what each file said last, by its directory
	count  int
	bytes  int
}

// ErrTooMany is for more rules than anybody writes, or more files than can be hidden.
var ErrTooMany = errors.New("there are too many")

// maxLater bounds how many files, and versions of files, are taken while a sandbox runs.
const maxLater = 64

// NewSet makes a set for a tree of rules of the user's own and of the repository. prefix
// is the tree's place in the repository, "" if it is all of it.
func NewSet(own, wish []Rule, prefix string) *Set {
	s := &Set{prefix: prefix, own: newList(append(slices.Clip(builtin()), own...)), wish: newList(wish)}
	s.found.first, s.found.known = map[string]*list{}, map[string]string{}
	return s
}

// Add adds the rules of a file that was found in the tree, in the directory dir of it. It
// says whether there is anything new in them. Rules that have come this way stay, even if
// the file loses them. What is read while the tree is first looked through counts
// together, as for git: a file further down may show what one further up hides.
func (s *Set) Add(dir, text string) (fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &s.found
	if a.known[dir] == text {
		return false, nil
	}
	rules, err := Parse(text, s.at(dir), join(dir, FileName))
	if a.count += len(rules); a.count > MaxRules || len(a.later) > maxLater {
		return false, ErrTooMany
	}
	if a.bytes += len(text); a.bytes > maxText {
		return false, ErrTooMany
	}
	a.known[dir] = text
	switch l := newList(rules); {
	case len(rules) == 0:
	case a.sealed || a.first[s.at(dir)] != nil:
		a.later = append(a.later, l)
	default:
		a.first[s.at(dir)] = l
	}
	return len(rules) > 0, err
}

// Seal ends the first look: whatever is added from now on stands for itself.
func (s *Set) Seal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found.sealed = true
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
	// first are the lists of the first look for this directory, the one furthest down
	// first; later are the others.
	first, later []*list
	effort       *effort // if it is counted
}

// In prepares to ask about entries of a directory.
func (s *Set) In(dir string) Dir {
	d := Dir{s: s, path: s.at(dir)}
	s.mu.RLock()
	defer s.mu.RUnlock()
	d.later = s.found.later
	if len(s.found.first) == 0 {
		return d
	}
	for p := d.path; ; p = p[:max(strings.LastIndexByte(p, '/'), 0)] {
		if l := s.found.first[p]; l != nil {
			d.first = append(d.first, l)
		}
		if p == "" {
			return d
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
	for _, l := range d.first {
		if r := l.last(d.path, name, dir, e); r != nil {
			if !r.Negated {
				return r
			}
			break
		}
	}
	for _, l := range d.later {
		if r := l.last(d.path, name, dir, e); r != nil && !r.Negated {
			return r
		}
	}
	r := d.s.wish.last(d.path, name, dir, e)
	if r == nil {
		r = d.s.own.last(d.path, name, dir, e)
	}
	if r == nil || r.Negated {
		return nil
	}
	return r
}

// Enters says whether a directory of this name is looked into.
func (d Dir) Enters(name string) bool {
	if name == ".git" || !Dependencies[name] {
		return name != ".git"
	}
	names := func(l *list) bool { return l.named[name] }
	return names(d.s.own) || names(d.s.wish) || slices.ContainsFunc(d.first, names) || slices.ContainsFunc(d.later, names)
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

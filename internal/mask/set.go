// Package mask decides which files of a directory a sandbox must not see, and finds them.
//
// Masks are lines of .gitignore's language, see [Parse]. They come from three sources:
//
//	built in           what nearly always is a secret: .env, keys, credentials
//	the user's config  may also take built-in masks back
//	the repository     .sandboxignore files and coffer.toml, which a program in a sandbox
//	                   may have written
//
// A [Set] keeps them apart. The first two are one list, in which the last matching line
// counts. The repository's lines hide more. They show what the first two hide only if they
// name it ([Shows]), and then the user was asked before they got here. A .sandboxignore file
// that is found in the tree only hides: its negated lines concern what the same file hides.
//
// [Tree.Scan] walks a tree that a sandbox may be writing, without following links, and
// [Tree.Watch] reports what appears in it later. The mounts that hide files are made by
// package rootfs.
//
// Git's own directories are not entered, nor those of package managers ([Dependencies])
// unless a line names them. Some built-in lines look at the content too: a .pem is hidden if
// there is a private key in it.
package mask

import (
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
)

// A Set says what of one tree is hidden. It may be used concurrently.
type Set struct {
	prefix string // of the tree in the repository, "" if it is all of it
	own    *list  // built in, and the user's
	wish   *list  // the repository's

	mu    sync.RWMutex
	found map[string][]*list // of files in the tree, by directory: each version of a file
	known map[string]string  // the latest text of each file, by its directory in the tree
	count int                // of lines
	bytes int
	later int // versions of files that replaced others
}

// ErrTooMany is for more rules than anybody writes, or more files than can be hidden.
var ErrTooMany = errors.New("there are too many")

// maxLater bounds how many versions of files are read while a sandbox runs.
const maxLater = 64

// NewSet makes a set of rules of the user's own and of the repository, for the tree that is at
// prefix in it.
func NewSet(own, wish []Rule, prefix string) *Set {
	s := &Set{prefix: prefix, own: newList(append(slices.Clip(builtin()), own...)), wish: newList(wish), found: map[string][]*list{}, known: map[string]string{}}
	for i := range s.wish.rules {
		r := &s.wish.rules[i]
		r.takesBack = r.Negated && s.own.hides(r)
	}
	return s
}

// Shows returns the lines of the repository that show what is built in or what the user hides,
// which needs the user's consent. A line does if, read as a path, it is hidden itself: !.env and
// !*.key do, and !*/ or !*.go, which take back lines of their own file, do not.
func Shows(own, wish []Rule) []Rule {
	return slices.DeleteFunc(NewSet(own, wish, "").wish.rules, func(r Rule) bool { return !r.takesBack })
}

// Add adds the rules of a .sandboxignore that was found in a directory of the tree, and reports
// whether any are new. Rules that were added stay, even if the file loses them.
func (s *Set) Add(dir, text string) (fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.known[dir]; ok && known == text {
		return false, nil
	}
	at := s.at(dir)
	rules, err := Parse(text, at, join(at, FileName))
	s.count += len(rules)
	s.bytes += len(text)
	if s.count > MaxRules || s.bytes > maxText || s.later > maxLater {
		return false, ErrTooMany
	}
	s.known[dir] = text
	if len(rules) == 0 || s.has(at, rules) {
		return false, err
	}
	if len(s.found[at]) > 0 {
		s.later++
	}
	s.found[at] = append(s.found[at], newList(rules))
	return true, err
}

// has reports whether the repository's rules include a file of a directory, as it is.
func (s *Set) has(dir string, file []Rule) bool {
	var have []Rule
	for _, r := range s.wish.rules {
		if r.base == dir && strings.HasPrefix(r.From, join(dir, FileName)+":") {
			have = append(have, r)
		}
	}
	return slices.EqualFunc(have, file, func(a, b Rule) bool { return a.Text == b.Text && a.From == b.From })
}

// at is a path of the tree in the repository.
func (s *Set) at(dir string) string {
	if s.prefix == "" || dir == "" {
		return s.prefix + dir
	}
	return s.prefix + "/" + dir
}

// A Dir is a directory of the tree about whose entries the set is asked.
type Dir struct {
	s      *Set
	path   string  // in the repository
	found  []*list // of files at this directory and above
	effort *effort // if it is counted
}

// In prepares to ask about entries of a directory.
func (s *Set) In(dir string) Dir {
	d := Dir{s: s, path: s.at(dir)}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for up := d.path; len(s.found) > 0; up = up[:max(strings.LastIndexByte(up, '/'), 0)] {
		d.found = append(d.found, s.found[up]...)
		if up == "" {
			break
		}
	}
	return d
}

// Decide returns the rule that hides an entry, nil if none does. The directories above are not
// considered: everything in a hidden directory is hidden. A rule that [Rule.Looks] hides the
// entry only if its content confirms it.
func (d Dir) Decide(name string, dir bool) *Rule {
	e := d.effort
	if e == nil {
		e = &effort{}
	}
	before := e.steps
	r := d.s.wish.last(d.path, name, dir, before, e)
	if !r.hides() {
		shown := r != nil && r.takesBack
		r = nil
		if own := d.s.own.last(d.path, name, dir, before, e); own.hides() && !shown {
			r = own
		}
	}
	for _, l := range d.found {
		if f := l.last(d.path, name, dir, before, e); f.hides() {
			r = f
			break
		}
	}
	return r
}

// Enters reports whether a directory of this name is looked into.
func (d Dir) Enters(name string) bool {
	if name == ".git" || !Dependencies[name] {
		return name != ".git"
	}
	names := func(l *list) bool { return l.named[name] }
	return names(d.s.own) || names(d.s.wish) || slices.ContainsFunc(d.found, names)
}

// Hides returns the rule that hides a path by its name or by that of a directory above it. look
// reports whether the content of a file is what a rule is about.
func (s *Set) Hides(file string, dir bool, look func(*Rule) bool) *Rule {
	parts := strings.Split(file, "/")
	for i, name := range parts {
		in, above := s.In(path.Join(parts[:i]...)), i < len(parts)-1
		if above && !in.Enters(name) || name == ".git" {
			return nil
		}
		if r := in.Decide(name, dir || above); r != nil && (!r.Looks() || !above && !dir && look(r)) {
			return r
		}
	}
	return nil
}

// Dependencies are the names of directories that package managers fill. They are not entered
// unless a rule names them.
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

// A list is rules in order, of which the last that matches counts. As a tree has many entries,
// the rules are indexed by the last byte of the names that they match, or the first.
type list struct {
	rules  []Rule
	byLast [256][]int32
	byHead [256][]int32
	others []int32
	named  map[string]bool // directories of dependencies that rules name
}

func newList(rules []Rule) *list {
	l := &list{rules: slices.Clone(rules), named: map[string]bool{}}
	for i, r := range l.rules {
		put := func(table *[256][]int32, c byte) {
			table[c] = append(table[c], int32(i))
			if r.glob.fold && between(c, 'a', 'z') {
				c -= 'a' - 'A'
				table[c] = append(table[c], int32(i))
			}
		}
		p := r.glob.pattern
		switch {
		case p == "":
		case r.literal == len(p) || plain(p[len(p)-1]) && (len(p) == 1 || plain(p[len(p)-2]) || p[len(p)-2] == '*'):
			put(&l.byLast, p[len(p)-1])
		case r.anyDir && r.literal > 0:
			put(&l.byHead, p[0])
		default:
			l.others = append(l.others, int32(i))
		}
		if r.Negated || r.From == Builtin {
			continue
		}
		for part := range strings.SplitSeq(r.base+"/"+p, "/") {
			if Dependencies[part] {
				l.named[part] = true
			}
		}
	}
	return l
}

// plain reports whether a byte is neither special itself nor the end of something that is.
func plain(c byte) bool { return alnum(c) || c == '_' || c == '.' }

// last returns the last rule that matches an entry, nil if there is none. before is what the effort was
// before this entry.
func (l *list) last(in, name string, dir bool, before int, e *effort) *Rule {
	if len(l.rules) == 0 || name == "" {
		return nil
	}
	best := int32(-1)
	for _, some := range [...][]int32{l.byLast[name[len(name)-1]], l.byHead[name[0]], l.others} {
		for k := len(some) - 1; k >= 0 && some[k] > best; k-- {
			r := &l.rules[some[k]]
			yes, n := r.matches(in, name, dir)
			if e.steps += n; e.steps-before > maxEach {
				e.slow = r
				return &Rule{Text: r.Text + " (too hard to tell)", From: r.From, base: r.base}
			}
			if yes {
				best = some[k]
			}
		}
	}
	if best < 0 {
		return nil
	}
	return &l.rules[best]
}

// hides reports whether a pattern, read as the path of a file or a directory, is hidden.
func (l *list) hides(r *Rule) bool {
	in, name := path.Split(join(r.base, r.glob.pattern))
	in = strings.TrimSuffix(in, "/")
	return l.last(in, name, false, 0, &effort{}).hides() || l.last(in, name, true, 0, &effort{}).hides()
}

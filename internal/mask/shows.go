package mask

import (
	"slices"
	"strings"
)

// Shows lists the rules of the repository, negated ones, that may show what is hidden by
// others: those the user has to agree to. It errs on the side of asking.
func Shows(own, wish []Rule) (list []Rule) {
	spare := maxMeet
	for i := range wish {
		if r := &wish[i]; r.takesBack(&spare, builtin(), own) {
			list = append(list, *r)
		}
	}
	return list
}

// A Refused is a file in the tree with lines that would show what others hide. The user has
// not agreed to them, so they show nothing.
type Refused struct {
	Dir   string // the file's, from where the rules' paths begin
	Text  string // all of the file
	Lines []Rule
}

// Refused lists these files. What they hide is hidden all the same.
func (s *Set) Refused() []Refused {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.found.refused)
}

// agreed says that a file says exactly what the repository's rules have of it already.
func (s *Set) agreed(dir string, rules []Rule) bool {
	file, n := join(dir, FileName)+":", 0
	for i := range s.wish.rules {
		r := &s.wish.rules[i]
		line, ok := strings.CutPrefix(r.From, file)
		if !ok || r.base != dir {
			continue
		}
		if n == len(rules) || rules[n].Text != r.Text || !strings.HasSuffix(rules[n].From, ":"+line) {
			return false
		}
		n++
	}
	return n == len(rules)
}

// shows are the lines of a file in the tree that may show what something else hides, be it
// another file of the tree: who wrote them nobody knows.
func (s *Set) shows(dir string, rules []Rule) (list []Rule) {
	var above [][]Rule
	for i := range rules {
		r := &rules[i]
		if !r.Negated || slices.ContainsFunc(s.wish.rules, func(w Rule) bool { return w.base == dir && w.Text == r.Text }) {
			continue
		}
		if above == nil {
			above = [][]Rule{s.wish.rules}
			for _, l := range s.found.above(dir) {
				above = append(above, l.rules)
			}
		}
		if r.takesBack(&s.found.spare, s.own.rules, above...) {
			list = append(list, *r)
		}
	}
	return list
}

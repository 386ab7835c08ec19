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

// maxMeet bounds the effort to compare lines, whose files anybody may have written. What is
// beyond it counts as one that shows something.
const maxMeet = 1 << 23

// takesBack says whether a line may show what rules hide. One that is built in takes back
// nothing of what is built in. What that takes is taken from spare.
func (r *Rule) takesBack(spare *int, own []Rule, others ...[]Rule) bool {
	if !r.Negated {
		return false
	}
	name := lastName(r.glob.pattern)
	usual := slices.ContainsFunc(builtin(), func(b Rule) bool { return b.Negated && b.Text == r.Text })
	meets := func(h Rule) bool {
		if h.Negated || usual && h.From == Builtin {
			return false
		}
		other := lastName(h.glob.pattern)
		*spare -= (len(name) + 1) * (len(other) + 1)
		return *spare < 0 || meet(name, other)
	}
	return slices.ContainsFunc(own, meets) || slices.ContainsFunc(others, func(l []Rule) bool { return slices.ContainsFunc(l, meets) })
}

// lastName is a pattern that the last name of every path matches that a pattern matches. Its
// letters are in lower case: the bytes of ASCII, as [matcher.at] has them, for patterns match
// bytes, and some letters have more bytes in lower case, or fewer.
func lastName(pattern string) string {
	if i := strings.LastIndexByte(pattern, '/'); i >= 0 {
		// The slash may be in a set; and two stars at the end cross slashes.
		if strings.IndexByte(pattern[:i], '[') >= 0 || strings.HasSuffix(pattern, "**") {
			return "*"
		}
		pattern = pattern[i+1:]
	}
	name := []byte(pattern)
	for i, c := range name {
		if upper(c) {
			name[i] += 'a' - 'A'
		}
	}
	return string(name)
}

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

package mask

import (
	"slices"
	"strings"
)

// maxMeet bounds the effort to compare lines, whose files anybody may have written. What is
// beyond it counts as one that shows something.
const maxMeet = 1 << 23

// takesBack says whether a line may show what rules hide: our own, if it means them, or
// others. One that is built in takes back nothing of what is built in. What that takes is
// taken from spare.
func (r *Rule) takesBack(spare *int, own []Rule, others ...[]Rule) bool {
	if !r.Negated || *spare < 0 {
		return r.Negated
	}
	usual := slices.ContainsFunc(builtin(), func(b Rule) bool { return b.Negated && b.Text == r.Text })
	meets := func(h Rule) bool {
		return !h.Negated && !(usual && h.From == Builtin) && r.meets(&h, spare)
	}
	return slices.ContainsFunc(own, func(h Rule) bool { return meets(h) && (r.means(&h) || *spare < 0) }) ||
		slices.ContainsFunc(others, func(l []Rule) bool { return slices.ContainsFunc(l, meets) })
}

// means says whether a line that shows something is about what another hides. It is not if
// they have only some names in common, as !*.go and .env.* have, nor if it is about
// everything, as !*/ is: people write such lines to take back their own, and what else they
// are about they do not think of. So that is not shown, and nobody needs to be asked.
func (r *Rule) means(h *Rule) bool {
	a, b := lastName(r.glob.pattern), lastName(h.glob.pattern)
	switch {
	case strings.Trim(r.glob.pattern, "*/") == "":
		return false
	case strings.ContainsAny(a+b, `[\`):
		return true
	}
	return within(a, b) || within(b, a)
}

// meets says whether some path may match both of two rules. Where that is hard to tell, it
// may.
func (r *Rule) meets(h *Rule, spare *int) bool {
	a, b := r.glob.pattern, h.glob.pattern
	x, y := lastName(a), lastName(b)
	*spare -= (len(x) + 1) * (len(y) + 1)
	if *spare < 0 {
		return true
	}
	if !meet(x, y) {
		return false
	}
	ra, ok1 := r.parts()
	hb, ok2 := h.parts()
	*spare -= (len(r.base) + len(a) + 3) * (len(h.base) + len(b) + 3)
	return *spare < 0 || !ok1 || !ok2 || meetPaths(ra, hb)
}

// parts are the patterns of the names of the paths that a rule matches, from the root on; a
// ** stands for any number of them. It is false for one that is hard to take apart.
func (r *Rule) parts() (list []string, ok bool) {
	p := r.glob.pattern
	if strings.ContainsAny(p, `[\`) {
		return nil, false // a slash may be in a set
	}
	if r.base != "" {
		list = strings.Split(lowered(r.base), "/")
	}
	if r.anyDir {
		return append(list, "**", lowered(p)), true
	}
	for part := range strings.SplitSeq(lowered(p), "/") {
		switch {
		case !strings.Contains(part, "**"):
		case strings.Trim(part, "*") == "":
			part = "**"
		default:
			return nil, false // the stars may cross slashes, see [Rule.about]
		}
		list = append(list, part)
	}
	return list, true
}

// meetPaths says whether some path may match both lists of patterns.
func meetPaths(a, b []string) bool { return meetAll(a, b, "**", meet) }

// meetAll says whether some sequence may match both of two lists, in which a star stands for
// any number of anything; what else may match the same, same says.
func meetAll[T comparable](a, b []T, star T, same func(x, y T) bool) bool {
	// row[j] says whether a[:i] and b[:j] may match the same.
	row := make([]bool, len(b)+1)
	for i := 0; i <= len(a); i++ {
		next := make([]bool, len(b)+1)
		for j := 0; j <= len(b); j++ {
			switch {
			case i == 0 && j == 0:
				next[j] = true
			case j > 0 && next[j-1] && (b[j-1] == star || i > 0 && a[i-1] == star):
				next[j] = true
			case i > 0 && row[j] && (a[i-1] == star || j > 0 && b[j-1] == star):
				next[j] = true
			case i > 0 && j > 0 && row[j-1] && same(a[i-1], b[j-1]):
				next[j] = true
			}
		}
		row = next
	}
	return row[len(b)]
}

// lastName is a pattern that the last name of every path matches that a pattern matches, in
// lower case.
func lastName(pattern string) string {
	if i := strings.LastIndexByte(pattern, '/'); i >= 0 {
		// The slash may be in a set; and two stars at the end cross slashes.
		if strings.IndexByte(pattern[:i], '[') >= 0 || strings.HasSuffix(pattern, "**") {
			return "*"
		}
		pattern = pattern[i+1:]
	}
	return lowered(pattern)
}

// lowered has letters in lower case: the bytes of ASCII, as [matcher.at] has them, for
// patterns match bytes, and some letters have more bytes in lower case, or fewer.
func lowered(pattern string) string {
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
	return meetAll([]byte(a), []byte(b), '*', func(x, y byte) bool { return x == y || x == '?' || y == '?' })
}

// within says that every name that matches one pattern matches another, wider one. Neither
// has sets in it.
func within(a, wider string) bool {
	// row[j] says whether wider[:i] takes all of a[:j].
	row := make([]bool, len(a)+1)
	row[0] = true
	for i := range len(wider) {
		next := make([]bool, len(a)+1)
		for j := range next {
			switch star := wider[i] == '*'; {
			case star && (row[j] || j > 0 && next[j-1]):
				next[j] = true
			case j > 0 && row[j-1] && !star && (wider[i] == a[j-1] || wider[i] == '?' && a[j-1] != '*'):
				next[j] = true
			}
		}
		row = next
	}
	return row[len(a)]
}

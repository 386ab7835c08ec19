package mask

import "strings"

// A glob is a shell pattern as git has it. With slashes set, only ** crosses a slash.
//
// Matching remembers what a star has tried in vain, so that no pattern, however hostile,
// takes more than its length times the text's.
type glob struct {
	pattern string
	slashes bool // the text is a path
	fold    bool // ASCII letters match in either case; the pattern is in lower case
}

// match says whether a text matches, and how many steps that took.
func (g *glob) match(text string) (yes bool, steps int) {
	m := matcher{glob: g, text: text}
	yes = m.from(0, 0)
	return yes, m.steps
}

type matcher struct {
	*glob
	text  string
	steps int
	// failed is from where on a place behind a star has been tried in vain: by the
	// place in the pattern, and where the star's reach ends.
	failed map[[2]int]int
}

func (m *matcher) at(i int) byte {
	if m.fold {
		return lowered(m.text[i])
	}
	return m.text[i]
}

func lowered(c byte) byte {
	if upper(c) {
		c += 'a' - 'A'
	}
	return c
}

// from says whether the pattern from p on matches the text from t on, all of it.
func (m *matcher) from(p, t int) bool {
	for p < len(m.pattern) {
		m.steps++
		c := m.pattern[p]
		if c == '*' {
			return m.star(p, t)
		}
		if t == len(m.text) {
			return false
		}
		switch c {
		case '?':
			if m.slashes && m.text[t] == '/' {
				return false
			}
		case '[':
			end, ok := m.bracket(p, m.at(t))
			m.steps += end - p
			if !ok || m.slashes && m.text[t] == '/' {
				return false
			}
			p = end
		case '\\':
			if p++; p == len(m.pattern) {
				return false // nothing to escape: such a pattern matches nothing
			}
			c = m.pattern[p]
			fallthrough
		default:
			if m.at(t) != c {
				return false
			}
		}
		p, t = p+1, t+1
	}
	return t == len(m.text)
}

// star matches one or more stars at p.
func (m *matcher) star(p, t int) bool {
	after := p
	for after < len(m.pattern) && m.pattern[after] == '*' {
		after++
	}
	rest := m.pattern[after:]
	cross := !m.slashes
	if m.slashes && after-p >= 2 && (p == 0 || m.pattern[p-1] == '/') &&
		(rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`)) {
		// Between slashes, two stars stand for any directories, or for none.
		if strings.HasPrefix(rest, "/") && m.from(after+1, t) {
			return true
		}
		cross = true
	}
	if rest == "" {
		return cross || strings.IndexByte(m.text[t:], '/') < 0
	}
	return m.stretch(after, t, cross)
}

// stretch tries the pattern from p on at t and at all that a star before it can reach
// from there.
func (m *matcher) stretch(p, t int, cross bool) bool {
	end := len(m.text)
	if i := strings.IndexByte(m.text[t:], '/'); i >= 0 && !cross {
		end = t + i
	}
	key := [2]int{p, end}
	tried, ok := m.failed[key]
	if !ok {
		tried = end + 1
	}
	for i := t; i < tried; i++ {
		m.steps++
		if m.from(p, i) {
			return true
		}
	}
	if m.failed == nil {
		m.failed = map[[2]int]int{}
	}
	m.failed[key] = min(t, tried)
	return false
}

// bracket says whether the set that begins at p has a byte, and where the set ends.
func (m *matcher) bracket(p int, c byte) (end int, ok bool) {
	s := m.pattern
	i := p + 1
	negated := i < len(s) && (s[i] == '!' || s[i] == '^')
	if negated {
		i++
	}
	found := false
	last := -1 // the byte before a possible range
	for first := true; ; first = false {
		if i >= len(s) {
			return i, false // it never ends
		}
		b := s[i]
		switch {
		case b == ']' && !first:
			return i, found != negated
		case b == '[' && i+1 < len(s) && s[i+1] == ':':
			if class, next, isClass := posix(s, i); isClass {
				if class == nil {
					return i, false // no such class
				}
				found = found || class(c)
				i, last = next, -1
				continue
			}
			found, last = found || c == b, int(b)
		case b == '-' && last >= 0 && i+1 < len(s) && s[i+1] != ']':
			i++
			if s[i] == '\\' {
				if i++; i == len(s) {
					return i, false
				}
			}
			found = found || int(c) >= last && c <= s[i]
			last = -1
		case b == '\\':
			if i++; i == len(s) {
				return i, false
			}
			found, last = found || c == s[i], int(s[i])
		default:
			found, last = found || c == b, int(b)
		}
		i++
	}
}

// posix reads a class such as [:alpha:] at i and returns what comes after it. Without
// an end like that it is none, and the bracket means itself.
func posix(s string, i int) (class func(byte) bool, next int, ok bool) {
	end := strings.IndexByte(s[i+2:], ']')
	if end < 0 {
		return nil, 0, true // nor does the set end
	}
	name, ok := strings.CutSuffix(s[i+2:i+2+end], ":")
	if !ok {
		return nil, 0, false
	}
	return classOf(name), i + 2 + end + 1, true
}

// classOf is a class of ASCII bytes: of the others the C locale says nothing. There may
// be none of the name.
func classOf(name string) func(byte) bool {
	graph := func(c byte) bool { return between(c, '!', '~') }
	switch name {
	case "alnum":
		return alnum
	case "alpha":
		return func(c byte) bool { return upper(c) || lower(c) }
	case "blank":
		return func(c byte) bool { return c == ' ' || c == '\t' }
	case "cntrl":
		return func(c byte) bool { return c < ' ' || c == 0x7f }
	case "digit":
		return digit
	case "graph":
		return graph
	case "lower":
		return lower
	case "print":
		return func(c byte) bool { return between(c, ' ', '~') }
	case "punct":
		return func(c byte) bool { return graph(c) && !alnum(c) }
	case "space": // to git, vertical tabs and form feeds are none
		return func(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
	case "upper":
		return upper
	case "xdigit":
		return func(c byte) bool { return digit(c) || between(c, 'a', 'f') || between(c, 'A', 'F') }
	}
	return nil
}

func between(c, from, to byte) bool { return from <= c && c <= to }
func upper(c byte) bool             { return between(c, 'A', 'Z') }
func lower(c byte) bool             { return between(c, 'a', 'z') }
func digit(c byte) bool             { return between(c, '0', '9') }
func alnum(c byte) bool             { return upper(c) || lower(c) || digit(c) }

package checkpoint

import (
	"path"
	"strings"
)

// Ignore decides which files git would not look at, as gitignore(5) says. It is made for
// a directory and covers all that is below.
type Ignore struct {
	above *Ignore
	dir   string // the rules' own directory, "" for the top
	rules []rule
	n     int // rules, with those above
	all   bool
}

// everything is ignored in an ignored directory, whatever the rules in it say.
var everything = &Ignore{all: true}

// A rule is one line of a .gitignore.
type rule struct {
	pattern string
	not     bool // what it matches is looked at after all
	dirs    bool // it is about directories only
	whole   bool // it is about the path from the rules' directory, not about the name
	literal bool // the pattern has nothing special in it
}

// Bounds on what a stranger's rules can cost.
const (
	maxPattern  = 4096
	maxPatterns = 20000
)

// NewIgnore makes rules for the top of a tree; later texts count more.
func NewIgnore(texts ...string) *Ignore {
	i := &Ignore{}
	for _, t := range texts {
		i = i.Below("", t)
	}
	return i
}

// Below adds the rules of a directory.
func (i *Ignore) Below(dir, text string) *Ignore {
	rules := parseIgnore(text)
	if i.all || len(rules) == 0 || i.n+len(rules) > maxPatterns {
		return i
	}
	return &Ignore{above: i, dir: dir, rules: rules, n: i.n + len(rules)}
}

func parseIgnore(text string) (rules []rule) {
	text = strings.TrimPrefix(text, "\ufeff")
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if r, ok := parseRule(line); ok {
			rules = append(rules, r)
		}
	}
	return rules
}

func parseRule(line string) (r rule, ok bool) {
	if line == "" || line[0] == '#' || len(line) > maxPattern {
		return r, false
	}
	// Spaces at the end do not count, unless the last of them is escaped.
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if strings.HasPrefix(line, "!") {
		r.not, line = true, line[1:]
	}
	if strings.HasSuffix(line, "/") {
		r.dirs, line = true, line[:len(line)-1]
	}
	r.whole = strings.Contains(line, "/")
	r.pattern = strings.TrimPrefix(line, "/")
	r.literal = !strings.ContainsAny(r.pattern, `*?[\`)
	return r, r.pattern != ""
}

// Match says whether a path is ignored. Its directories are not, or nobody would ask.
func (i *Ignore) Match(rel string, isDir bool) bool {
	for ; i != nil; i = i.above {
		if i.all {
			return true
		}
		within := rel
		if i.dir != "" {
			within = strings.TrimPrefix(rel, i.dir+"/")
		}
		for k := len(i.rules) - 1; k >= 0; k-- {
			r := &i.rules[k]
			if r.dirs && !isDir {
				continue
			}
			subject := within
			if !r.whole {
				subject = path.Base(within)
			}
			if r.literal && r.pattern == subject || !r.literal && wild(r.pattern, subject) {
				return !r.not
			}
		}
	}
	return false
}

// wild matches a pattern of git's. A star stops at a slash, two of them between slashes
// do not. It takes time in proportion to the product of the lengths at worst: of every
// kind of star, only the last one met can be of use.
func wild(p, s string) bool {
	type mark struct{ p, s int }
	none := mark{-1, -1}
	star, stars := none, none // where to go on, when what follows a star does not fit
	i, j := 0, 0
	for {
		if i == len(p) && j == len(s) {
			return true
		}
		if i < len(p) {
			if n, free := starAt(p, i); n > 0 {
				if free {
					stars, star = mark{i + n, j}, none
				} else {
					star = mark{i + n, j}
				}
				i += n
				continue
			}
			if j < len(s) {
				if n, ok := one(p[i:], s[j]); ok {
					i, j = i+n, j+1
					continue
				}
			}
		}
		switch {
		case star.s >= 0 && star.s < len(s) && s[star.s] != '/':
			star.s++
			i, j = star.p, star.s
		case stars.s >= 0 && stars.s < len(s):
			// Two stars stand for whole directories: on to the next one.
			next := strings.IndexByte(s[stars.s:], '/')
			if stars.p == len(p) {
				return true
			}
			if next < 0 {
				return false
			}
			stars.s += next + 1
			i, j, star = stars.p, stars.s, none
		default:
			return false
		}
	}
}

// starAt says how many bytes of the pattern at i are a star, and whether it is one that
// crosses slashes. "a/**" wants something below a; "**/a" and "a/**/b" may stand for
// nothing at all.
func starAt(p string, i int) (n int, free bool) {
	if p[i] != '*' {
		return 0, false
	}
	for i+n < len(p) && p[i+n] == '*' {
		n++
	}
	if n == 2 && (i == 0 || p[i-1] == '/') {
		switch {
		case i+2 == len(p):
			return 2, true
		case p[i+2] == '/':
			return 3, true
		}
	}
	return n, false
}

// one matches one byte, and says how long the pattern for it is.
func one(p string, c byte) (n int, ok bool) {
	switch p[0] {
	case '?':
		return 1, c != '/'
	case '\\':
		if len(p) == 1 {
			return 0, false
		}
		return 2, p[1] == c
	case '[':
		return class(p, c)
	}
	return 1, p[0] == c
}

// class matches a bracket expression.
func class(p string, c byte) (n int, ok bool) {
	i, not := 1, false
	if i < len(p) && (p[i] == '!' || p[i] == '^') {
		not, i = true, i+1
	}
	for first := true; ; first = false {
		if i >= len(p) {
			return 0, false
		}
		if p[i] == ']' && !first {
			break
		}
		if strings.HasPrefix(p[i:], "[:") {
			if end := strings.Index(p[i:], ":]"); end > 0 {
				ok = ok || named(p[i+2:i+end], c)
				i += end + 2
				continue
			}
		}
		lo := p[i]
		if lo == '\\' && i+1 < len(p) {
			i++
			lo = p[i]
		}
		i++
		hi := lo
		if i+1 < len(p) && p[i] == '-' && p[i+1] != ']' {
			hi, i = p[i+1], i+2
			if hi == '\\' && i < len(p) {
				hi, i = p[i], i+1
			}
		}
		ok = ok || lo <= c && c <= hi
	}
	return i + 1, ok != not && c != '/'
}

func named(name string, c byte) bool {
	lower, upper, digit := c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9'
	switch name {
	case "alpha":
		return lower || upper
	case "alnum":
		return lower || upper || digit
	case "digit":
		return digit
	case "lower":
		return lower
	case "upper":
		return upper
	case "space":
		return c == ' ' || c >= 9 && c <= 13
	case "punct":
		return c > ' ' && c < 0x7f && !lower && !upper && !digit
	case "xdigit":
		return digit || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
	}
	return false
}

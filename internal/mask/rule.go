package mask

import (
	"errors"
	"fmt"
	"strings"
)

// FileName is the name of the files in which a repository says what to hide.
const FileName = ".sandboxignore"

// Bounds on what a set is made of, which a program may have written.
const (
	MaxFile    = 64 << 10
	maxPattern = 1024
	maxStars   = 32
	MaxRules   = 4000
	maxText    = 256 << 10 // of all files of a tree
)

// A Rule is one line.
type Rule struct {
	Text string // as it was written
	From string // where: "FILE:LINE", or Builtin

	Negated   bool
	takesBack bool // it shows what is built in, or the user hides
	dirOnly   bool
	anyDir    bool // it has no slash: it matches names, in any directory
	base      string
	glob      glob
	literal   int // length of the pattern's start without special bytes
	look      *evidence
}

// Builtin is where built-in rules come from.
const Builtin = "built-in"

// ErrPattern is for lines that are too long or have too many stars.
var ErrPattern = errors.New("is not a pattern that coffer takes")

// ParseLine reads one line of a file in the directory base, "" for the root of the repository.
// It is false for an empty line and a comment.
func ParseLine(line, base, from string) (r Rule, says bool, err error) {
	line = strings.TrimSuffix(line, "\n")
	line = strings.TrimSuffix(line, "\r")
	if line == "" || line[0] == '#' {
		return r, false, nil
	}
	line = trimSpaces(line)
	r = Rule{Text: line, From: from, base: base}
	p, negated := strings.CutPrefix(line, "!")
	r.Negated = negated
	if p == "" {
		return r, false, nil
	}
	switch {
	case len(p) > maxPattern:
		return r, false, fmt.Errorf("%w: it has more than %d bytes", ErrPattern, maxPattern)
	case strings.Count(p, "*") > maxStars:
		return r, false, fmt.Errorf("%w: it has more than %d stars", ErrPattern, maxStars)
	case strings.ContainsRune(p, 0):
		return r, false, fmt.Errorf("%w: there is a NUL in it", ErrPattern)
	}
	p, r.dirOnly = strings.CutSuffix(p, "/")
	r.anyDir = !strings.Contains(p, "/")
	if !r.anyDir {
		p = strings.TrimPrefix(p, "/")
	}
	r.literal = len(p)
	if i := strings.IndexAny(p, `*?[\`); i >= 0 {
		r.literal = i
	}
	r.glob = glob{pattern: p, slashes: !r.anyDir}
	return r, true, nil
}

// Base is the directory, from the root of the repository, whose file has the rule.
func (r *Rule) Base() string { return r.base }

func (r *Rule) hides() bool { return r != nil && !r.Negated }

// trimSpaces removes spaces at the end that no backslash escapes.
func trimSpaces(s string) string {
	end := 0
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
			end = min(i+1, len(s))
		} else if s[i] != ' ' {
			end = i + 1
		}
	}
	return s[:end]
}

// Parse reads a whole file of the directory base, called name in errors. Lines that are no
// patterns are left out; the error is about the first.
func Parse(text, base, name string) (rules []Rule, err error) {
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\uFEFF")) {
		n++
		r, says, bad := ParseLine(line, base, fmt.Sprintf("%s:%d", name, n))
		if bad != nil && err == nil {
			err = fmt.Errorf("%s:%d: %w", name, n, bad)
		}
		if says {
			rules = append(rules, r)
		}
	}
	return rules, err
}

// Matches reports whether the rule matches an entry of a directory, "" for the root.
func (r *Rule) Matches(in, name string, dir bool) bool {
	yes, _ := r.matches(in, name, dir)
	return yes
}

// matches reports whether the rule matches an entry of a directory, "" for the root, and how
// many steps that took.
func (r *Rule) matches(in, name string, dir bool) (yes bool, steps int) {
	if r.dirOnly && !dir {
		return false, 1
	}
	if r.base != "" {
		rest, ok := strings.CutPrefix(in, r.base)
		if !ok || rest != "" && rest[0] != '/' {
			return false, 1
		}
		in = strings.TrimPrefix(rest, "/")
	}
	g, text := &r.glob, name
	if !r.anyDir {
		// Most paths differ at once, which is found without joining them.
		if n := min(len(in), r.literal); !g.equal(in[:n], g.pattern[:n]) {
			return false, 1
		}
		text = join(in, name)
	}
	if len(text) < r.literal || !g.equal(text[:r.literal], g.pattern[:r.literal]) {
		return false, 1
	}
	// As in git, the rest is matched as if it stood alone.
	rest := glob{pattern: g.pattern[r.literal:], slashes: g.slashes, fold: g.fold}
	yes, steps = rest.match(text[r.literal:])
	return yes, steps + 1
}

// equal compares a text with a part of the pattern.
func (g *glob) equal(text, pattern string) bool {
	if !g.fold || len(text) != len(pattern) {
		return text == pattern
	}
	for i := range len(text) {
		if lowered(text[i]) != pattern[i] {
			return false
		}
	}
	return true
}

// Package template fills variables of the host's environment into text:
//
//	${NAME}          its value; an error if it is not set
//	${NAME:-text}    the text, a template itself, if NAME is not set or empty
//	$$               a dollar
//
// A dollar before anything else stands for itself. Templates are a repository's word, so
// what they become is bounded, and which variables they may read is known beforehand.
package template

import (
	"errors"
	"fmt"
	"strings"
)

// maxNesting bounds defaults in defaults.
const maxNesting = 8

// maxValue bounds the result: defaults that name one long variable many times grow.
const maxValue = 128 << 10

// Expand fills in a template.
func Expand(s string, lookup func(string) (string, bool)) (string, error) {
	t := template{lookup: lookup}
	out, rest, err := t.run(s, false, true, 0)
	if err == nil && rest != "" {
		err = errors.New("goes on after its end") // cannot be
	}
	return out, err
}

// Mentions returns the variables that a template may read.
func Mentions(s string) (names []string, err error) {
	t := template{lookup: func(string) (string, bool) { return "", false }, seen: &names}
	_, _, err = t.run(s, false, true, 0)
	return names, err
}

type template struct {
	lookup func(string) (string, bool)
	seen   *[]string // when set, the variables are noted and none is missed
	size   int
}

// run expands up to the end, or the brace that closes a default. What is not live is
// only read over.
func (t *template) run(s string, inner, live bool, depth int) (out, rest string, err error) {
	if depth > maxNesting {
		return "", "", fmt.Errorf("has defaults that are nested more than %d deep", maxNesting)
	}
	var b strings.Builder
	for s != "" {
		switch {
		case inner && s[0] == '}':
			return b.String(), s, nil
		case strings.HasPrefix(s, "$$"):
			b.WriteByte('$')
			s = s[2:]
		case strings.HasPrefix(s, "${"):
			var value string
			if value, s, err = t.variable(s[2:], live, depth); err != nil {
				return "", "", err
			}
			if t.size += len(value); t.size > maxValue {
				return "", "", fmt.Errorf("becomes longer than %d bytes", maxValue)
			}
			b.WriteString(value)
		default:
			b.WriteByte(s[0])
			s = s[1:]
		}
	}
	if inner {
		return "", "", errors.New("has a ${ that is never closed")
	}
	return b.String(), "", nil
}

// variable reads NAME} or NAME:-default}.
func (t *template) variable(s string, live bool, depth int) (value, rest string, err error) {
	end := 0
	for end < len(s) && isNameByte(s[end], end) {
		end++
	}
	name, rest := s[:end], s[end:]
	if name == "" {
		return "", "", errors.New("has a ${ without the name of a variable; write $${ for the characters themselves")
	}
	if t.seen != nil {
		*t.seen = append(*t.seen, name)
	}
	value, ok := t.lookup(name)
	switch {
	case strings.HasPrefix(rest, "}"):
		if !ok && live && t.seen == nil {
			return "", "", fmt.Errorf("needs your environment variable %s, which is not set; a default is written ${%s:-text}", name, name)
		}
		return value, rest[1:], nil
	case strings.HasPrefix(rest, ":-"):
		instead, after, err := t.run(rest[2:], true, live && value == "", depth+1)
		if err != nil {
			return "", "", err
		}
		if value == "" {
			value = instead
		}
		return value, after[1:], nil
	}
	return "", "", fmt.Errorf("has a ${%s that goes on with neither } nor :-", name)
}

func isNameByte(c byte, i int) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9'
}

// IsName says whether s can be the name of a variable.
func IsName(s string) bool {
	for i := range len(s) {
		if !isNameByte(s[i], i) {
			return false
		}
	}
	return s != "" && len(s) <= 200
}

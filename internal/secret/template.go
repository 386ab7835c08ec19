package secret

import (
	"errors"
	"fmt"
	"strings"
)

// maxDefaults bounds defaults in defaults.
const maxDefaults = 8

// maxExpanded bounds the result: defaults that name one long variable many times grow.
const maxExpanded = 128 << 10

// A Ref is what a template reads: a variable or, by ${secret:NAME}, a secret.
type Ref struct {
	Name   string
	Secret bool
}

// Missing is the error about a reference that has no value, and no default. It reads on
// after the name of what the template is for.
type Missing struct{ Ref }

func (m *Missing) Error() string {
	if m.Secret {
		return fmt.Sprintf("needs the secret %s, which is not in your vault", m.Name)
	}
	return fmt.Sprintf("needs your environment variable %s, which is not set, nor is there a secret of that name; a default is written ${%s:-text}", m.Name, m.Name)
}

// Hint is the way out.
func (m *Missing) Hint() string {
	if m.Secret {
		return "put it there: coffer secret set " + m.Name
	}
	return "export it, or keep it as a secret: coffer secret set " + m.Name
}

// Expand fills variables and secrets of the user's into a template:
//
//	${NAME}          the variable's value; an error if there is none
//	${NAME:-text}    the text, a template itself, if there is none or it is empty
//	${secret:NAME}   a secret of the vault; :-text works as well
//	$$               a dollar
//
// A dollar before anything else stands for itself. What lookup fails with ends the expansion;
// that there is no value is no failure. A template may come from a repository, so
// the result is bounded. Only what it depends on is looked up.
func Expand(s string, lookup func(Ref) (value string, ok bool, err error)) (string, error) {
	t := template{lookup: lookup}
	out, _, err := t.run(s, false, true, 0)
	return out, err
}

// Mentions returns what a template may read.
func Mentions(s string) (refs []Ref, err error) {
	t := template{seen: &refs}
	_, _, err = t.run(s, false, true, 0)
	return refs, err
}

type template struct {
	lookup func(Ref) (value string, ok bool, err error)
	seen   *[]Ref // when set, references are noted and none is looked up
	size   int
}

// run expands up to the end, or the brace that closes a default. What is not live is
// only read over.
func (t *template) run(s string, inner, live bool, depth int) (out, rest string, err error) {
	if depth > maxDefaults {
		return "", "", fmt.Errorf("has defaults that are nested more than %d deep", maxDefaults)
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
			if t.size += len(value); t.size > maxExpanded {
				return "", "", fmt.Errorf("becomes longer than %d bytes", maxExpanded)
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

// variable reads NAME} or NAME:-default}, where NAME may be secret:NAME.
func (t *template) variable(s string, live bool, depth int) (value, rest string, err error) {
	ref, rest, err := reference(s)
	if err != nil {
		return "", "", err
	}
	if t.seen != nil {
		*t.seen = append(*t.seen, ref)
	}
	var ok bool
	if live && t.seen == nil {
		if value, ok, err = t.lookup(ref); err != nil {
			return "", "", err
		}
	}
	switch {
	case strings.HasPrefix(rest, "}"):
		if !ok && live && t.seen == nil {
			return "", "", &Missing{ref}
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
	return "", "", fmt.Errorf("has a ${%s that goes on with neither } nor :-", ref.Name)
}

// reference reads NAME or secret:NAME. A variable may be named secret, too.
func reference(s string) (r Ref, rest string, err error) {
	r.Name, rest = name(s)
	if after, ok := strings.CutPrefix(rest, ":"); ok && r.Name == "secret" {
		if n, more := name(after); n != "" {
			return Ref{Name: n, Secret: true}, more, nil
		}
	}
	if r.Name == "" {
		err = errors.New("has a ${ without the name of a variable; write $${ for the characters themselves")
	}
	return r, rest, err
}

func name(s string) (name, rest string) {
	end := 0
	for end < len(s) && isNameByte(s[end], end) {
		end++
	}
	return s[:end], s[end:]
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

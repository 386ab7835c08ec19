package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A rule about paths is only worth something if the server reads the path as we do.
// Servers differ: some decode %2e before they resolve dots, some merge slashes, some
// take a backslash for a slash. So there is a normal form for the paths that everybody
// reads alike, and none for the others.

const maxPath = 64 << 10

// NormalPath returns the path of a request in its normal form, without query: percent-
// encoding decoded (except of / ? # and %, for which it is kept), dot segments
// resolved, slashes merged, no slash at the end. It is not ok if servers may disagree
// about what the path means.
func NormalPath(path string) (clean string, ok bool) {
	if isNormalPath(path) {
		return path, true
	}
	path, _, _ = strings.Cut(path, "?")
	if len(path) > maxPath || !strings.HasPrefix(path, "/") {
		return "", false
	}
	decoded, ok := decodePath(path)
	if !ok {
		return "", false
	}
	return resolveDots(decoded)
}

// isNormalPath is the quick way for most paths; false says nothing yet.
func isNormalPath(path string) bool {
	if len(path) < 2 || len(path) > maxPath || path[0] != '/' || path[len(path)-1] == '/' {
		return false
	}
	for i := range len(path) {
		switch c := path[i]; {
		case c <= ' ' || c >= 0x7f || c == '%' || c == '\\' || c == ';' || c == '?' || c == '#':
			return false
		case c == '/' && (path[i+1] == '/' || path[i+1] == '.'):
			return false
		}
	}
	return true
}

func decodePath(path string) (string, bool) {
	out := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '#' {
			return "", false // no client sends a fragment
		}
		if c == '%' {
			hi, lo := unhex(path, i+1), unhex(path, i+2)
			if hi < 0 || lo < 0 {
				return "", false
			}
			c, i = byte(hi<<4|lo), i+2
			switch c {
			case '%', '/', '?', '#':
				out = append(out, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
				continue
			}
		}
		// A semicolon begins parameters for some, who then serve the path without them.
		if c < ' ' || c == 0x7f || c == '\\' || c == ';' {
			return "", false
		}
		out = append(out, c)
	}
	decoded := string(out)
	return decoded, utf8.ValidString(decoded) && !encodedTwice(decoded)
}

// encodedTwice: a % that is left would begin an encoding if it were decoded once more,
// and who knows how often a server does that.
func encodedTwice(path string) bool {
	for {
		_, after, found := strings.Cut(path, "%25")
		if !found {
			return false
		}
		if unhex(after, 0) >= 0 && unhex(after, 1) >= 0 || strings.HasPrefix(after, "%") {
			return true
		}
		path = after
	}
}

func unhex(s string, i int) int {
	if i >= len(s) {
		return -1
	}
	switch c := s[i]; {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func resolveDots(path string) (string, bool) {
	var kept []string
	segments := strings.Split(path[1:], "/")
	merged, up := false, false
	for i, s := range segments {
		switch s {
		case "":
			merged = merged || i < len(segments)-1
		case ".":
		case "..":
			up = true
			if len(kept) > 0 {
				kept = kept[:len(kept)-1]
			}
		default:
			kept = append(kept, s)
		}
	}
	// Up from an empty segment: to where it began, or one further if it was merged away?
	return "/" + strings.Join(kept, "/"), !(merged && up)
}

// readings returns the paths a server may take path for: one, or two if a slash is
// encoded in it, which is part of a name for some and separates names for others.
func readings(path string) (first, second string, ok bool) {
	first, ok = NormalPath(path)
	if !ok || !strings.Contains(first, "%2F") {
		return first, first, ok
	}
	second, ok = resolveDots(strings.ReplaceAll(first, "%2F", "/"))
	return first, second, ok
}

// pathPattern is the segments of a pattern.
type pathPattern []string

func parsePathPattern(s string) (pathPattern, error) {
	if !strings.HasPrefix(s, "/") {
		return nil, fmt.Errorf("path %s does not begin with /", quote(s))
	}
	if strings.ContainsAny(s, "?#") {
		return nil, fmt.Errorf("path %s: rules see no query, and ? is no wildcard", quote(s))
	}
	clean, ok := NormalPath(s)
	if !ok {
		return nil, fmt.Errorf("path %s has no normal form: servers may disagree about what it means", quote(s))
	}
	if clean == "/" {
		return nil, nil
	}
	p := pathPattern(strings.Split(clean[1:], "/"))
	for _, segment := range p {
		if segment != "**" && strings.Contains(segment, "**") {
			return nil, errors.New("** stands for whole segments, as in /api/**")
		}
	}
	return p, nil
}

// match wants a path in normal form. As usual for wildcards, only the last ** ever has
// to be reconsidered, so it takes time in proportion to pattern times path at most.
func (p pathPattern) match(path string) bool {
	rest := path[1:] // segments still to match
	done := rest == ""
	at := 0
	star, starRest := -1, ""
	for !done {
		segment, after, more := strings.Cut(rest, "/")
		switch {
		case at < len(p) && p[at] == "**":
			star, starRest = at, rest
			at++
		case at < len(p) && matchSegment(p[at], segment):
			at++
			rest, done = after, !more
		case star >= 0:
			// Let the ** take one segment more.
			_, after, more = strings.Cut(starRest, "/")
			at = star + 1
			rest, starRest, done = after, after, !more
		default:
			return false
		}
	}
	for at < len(p) && p[at] == "**" {
		at++
	}
	return at == len(p)
}

// matchSegment: * in pattern stands for any number of characters.
func matchSegment(pattern, s string) bool {
	at, i := 0, 0
	star, starAt := -1, 0
	for i < len(s) {
		switch {
		case at < len(pattern) && pattern[at] == '*':
			star, starAt = at, i
			at++
		case at < len(pattern) && pattern[at] == s[i]:
			at++
			i++
		case star >= 0:
			starAt++
			at, i = star+1, starAt
		default:
			return false
		}
	}
	return strings.Trim(pattern[at:], "*") == ""
}

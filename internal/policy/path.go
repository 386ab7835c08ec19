package policy

import (
	"errors"
	"fmt"
	"regexp"
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

// pathPattern matches paths in normal form.
type pathPattern struct{ *regexp.Regexp }

func parsePathPattern(s string) (p pathPattern, err error) {
	if !strings.HasPrefix(s, "/") {
		return p, fmt.Errorf("path %s does not begin with /", quote(s))
	}
	if strings.ContainsAny(s, "?#") {
		return p, fmt.Errorf("path %s: rules see no query, and ? is no wildcard", quote(s))
	}
	clean, ok := NormalPath(s)
	if !ok {
		return p, fmt.Errorf("path %s has no normal form: servers may disagree about what it means", quote(s))
	}
	expr := ""
	for segment := range strings.SplitSeq(strings.Trim(clean, "/"), "/") {
		switch {
		case clean == "/":
		case segment == "**":
			expr += `(?:/[^/]*)*`
		case strings.Contains(segment, "**"):
			return p, errors.New("** stands for whole segments, as in /api/**")
		default:
			expr += "/" + strings.ReplaceAll(regexp.QuoteMeta(segment), `\*`, `[^/]*`)
		}
	}
	p.Regexp, err = regexp.Compile("^" + expr + "$")
	return p, err
}

func (p pathPattern) match(path string) bool { return p.MatchString(strings.TrimSuffix(path, "/")) }

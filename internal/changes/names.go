package changes

import (
	"fmt"
	"path"
	"strings"

	"github.com/cofferhq/coffer/internal/ui"
)

// Quote writes a path the way git does: as it is when every byte is printable
// ASCII other than a quote or backslash, otherwise in double quotes with C
// escapes and octal bytes. The result is one line of ASCII, whatever the name.
func Quote(name string) string {
	odd := false
	for i := 0; i < len(name); i++ {
		if c := name[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			odd = true
			break
		}
	}
	if !odd {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(name); i++ {
		c := name[i]
		if k := strings.IndexByte(escaped, c); k >= 0 {
			b.WriteByte('\\')
			b.WriteByte(letters[k])
		} else if c < ' ' || c >= 0x7f {
			fmt.Fprintf(&b, "\\%03o", c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// escaped[i] is written as a backslash and letters[i].
const (
	escaped = "\a\b\t\n\v\f\r\"\\"
	letters = "abtnvfr\"\\"
)

// Unquote is the inverse of Quote.
func Unquote(s string) (string, error) {
	if !strings.HasPrefix(s, `"`) {
		return s, nil
	}
	if len(s) < 2 || !strings.HasSuffix(s, `"`) {
		return "", fmt.Errorf("unquote %q: no closing quote", s)
	}
	in := s[1 : len(s)-1]
	var b strings.Builder
	for i := 0; i < len(in); i++ {
		if in[i] == '"' {
			return "", fmt.Errorf("unquote %q: quote inside", s)
		}
		if in[i] != '\\' {
			b.WriteByte(in[i])
			continue
		}
		i++
		if i == len(in) {
			return "", fmt.Errorf("unquote %q: ends in a backslash", s)
		}
		if k := strings.IndexByte(letters, in[i]); k >= 0 {
			b.WriteByte(escaped[k])
			continue
		}
		if i+3 > len(in) || !octal(in[i:i+3]) {
			return "", fmt.Errorf("unquote %q: unknown escape", s)
		}
		b.WriteByte((in[i]-'0')<<6 | (in[i+1]-'0')<<3 | (in[i+2] - '0'))
		i += 2
	}
	return b.String(), nil
}

func octal(s string) bool {
	return s[0] >= '0' && s[0] <= '3' && s[1] >= '0' && s[1] <= '7' && s[2] >= '0' && s[2] <= '7'
}

// IsGit says whether some file system would take name for ".git": case folded
// (macOS, Windows), with the code points HFS+ ignores, or in one of NTFS's
// spellings (trailing dots and spaces, a stream after a colon, the short name).
// The workspace may be copied to such a system later, so all hold everywhere.
func IsGit(name string) bool {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e,
			r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, name)
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimRight(name, ". ")
	return asciiFold(name, ".git") || asciiFold(name, "git~1")
}

func asciiFold(s, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// LinkNote says what is remarkable about a symlink at link (relative to the
// workspace) pointing to target; empty if nothing is. It judges the text, as
// what the target means depends on other links: a ".." that comes after a name
// is remarkable, since that name may be a link that ends anywhere.
func LinkNote(link, target string) string {
	if strings.HasPrefix(target, "/") {
		return "symlink to the absolute path " + Quote(target)
	}
	depth := strings.Count(link, "/")
	named := false
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case part == "" || part == ".":
		case part == "..":
			if depth--; depth < 0 {
				return "symlink that leaves the workspace: " + Quote(target)
			}
			if named {
				return "symlink that may leave the workspace through another: " + Quote(target)
			}
		case IsGit(part):
			return "symlink into a git directory: " + Quote(target)
		default:
			named = true
			depth++
		}
	}
	return ""
}

// selection is a set of paths the user asked for; empty means everything.
type selection struct {
	want map[string]bool // path → has it matched anything
}

func newSelection(paths []string) (*selection, error) {
	s := &selection{want: map[string]bool{}}
	for _, p := range paths {
		c := path.Clean(p)
		if p == "" || path.IsAbs(c) || c == ".." || strings.HasPrefix(c, "../") {
			return nil, ui.Error(fmt.Sprintf("path %s is not inside the workspace", Quote(p)), "paths are relative to the top of the workspace")
		}
		s.want[c] = false
	}
	return s, nil
}

// match says whether p is one of the paths or below one.
func (s *selection) match(p string) bool {
	if len(s.want) == 0 {
		return true
	}
	found := false
	for w := range s.want {
		if w == "." || within(p, w) {
			s.want[w] = true
			found = true
		}
	}
	return found
}

// within says whether p is dir or below it.
func within(p, dir string) bool {
	return strings.HasPrefix(p, dir) && (len(p) == len(dir) || p[len(dir)] == '/')
}

// unmatched returns an error if a path asked for never matched.
func (s *selection) unmatched() error {
	for p, seen := range s.want {
		if !seen && p != "." {
			return fmt.Errorf("%s: %w", Quote(p), ErrNoMatch)
		}
	}
	return nil
}

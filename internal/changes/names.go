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
	odd := func(c rune) bool { return c < ' ' || c >= 0x7f || c == '"' || c == '\\' }
	if !strings.ContainsFunc(name, odd) {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(name) {
		if k := strings.IndexByte(escaped, c); k >= 0 {
			b.WriteByte('\\')
			b.WriteByte(letters[k])
		} else if odd(rune(c)) {
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
	return strings.EqualFold(name, ".git") || strings.EqualFold(name, "git~1")
}

// LinkNote says what is remarkable about a symlink at link (relative to the workspace) pointing to
// target; empty if nothing is. It judges the text, as what the target means depends on other links:
// a ".." that comes after a name is remarkable, since that name may be a link that ends anywhere.
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

package config

import (
	"bytes"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// A file with one slip of the pen may have others, and who mends it wants to hear of all. The
// parser stops at the first; it is set going again at the next line that looks like a
// statement, and what is read of such a file serves to find mistakes, nothing else.

// statements reads all statements that can be read.
func (r *reader) statements() {
	p := &unstable.Parser{}
	for from := 0; from >= 0; {
		r.from = from
		p.Reset(r.data[from:])
		for r.nodes <= maxNodes && p.NextExpression() {
			r.expression(p.Expression())
		}
		err := p.Error()
		if err == nil {
			return
		}
		from = r.after(r.syntax(err), from)
	}
}

// after is where to go on after a mistake at an offset, -1 if nowhere. Each line is tried
// once, so this takes no longer than reading the file.
func (r *reader) after(at, from int) int {
	if at < 0 || len(r.problems) >= most || strings.Contains(r.problems[len(r.problems)-1].Msg, "multiline") {
		return -1 // it is not known where it is, or where a text ends
	}
	line := r.pos(at).Line - 1
	start := r.lines[line]
	if begins(r.line(line)) && start > from && len(bytes.TrimLeft(r.data[start:at], " \t[")) == 0 {
		r.torn(r.current)
		r.problems[len(r.problems)-1].Msg = "the value before this line is not complete: a bracket that closes it is missing"
		return start
	}
	if strings.HasPrefix(strings.TrimLeft(r.line(line), " \t"), "[") && begins(r.line(line)) {
		r.current = nil // whose keys follow is not known
	} else {
		r.torn(r.current)
	}
	for line++; line < len(r.lines); line++ {
		if begins(r.line(line)) {
			return r.lines[line]
		}
	}
	return -1
}

// torn notes a table that lacks something it has.
func (r *reader) torn(t *node) {
	if t != nil && t != r.root {
		r.lacking = append(r.lacking, t.at)
	}
}

func (r *reader) line(n int) string {
	end := len(r.data)
	if n+1 < len(r.lines) {
		end = r.lines[n+1]
	}
	return string(r.data[r.lines[n]:end])
}

// begins says whether a line looks like the beginning of a statement: a header, or a key and
// an equals sign. Lines of a list or of a text mostly do not.
func begins(line string) bool {
	line = strings.TrimSpace(line)
	if rest := strings.TrimLeft(line, "[ \t"); rest != line {
		return strings.HasPrefix(line, "[") && rest != "" && isLetter(rest[0]) && !strings.Contains(rest, ",")
	}
	key, _, ok := strings.Cut(line, "=")
	if !ok || key == "" {
		return false
	}
	for i := range len(key) {
		if !isLetter(key[i]) && strings.IndexByte("0123456789-. \t\"'", key[i]) < 0 {
			return false
		}
	}
	return strings.Count(key, `"`)%2 == 0 && strings.Count(key, "'")%2 == 0
}

func isLetter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
}

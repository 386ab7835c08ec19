package config

import (
	"bytes"
	"errors"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Bounds on a file. It may be a stranger's, and is read before anybody was asked.
const (
	maxFile  = 256 << 10
	maxDepth = 16
	maxNodes = 5000
)

// parse turns a file into a tree of nodes, which is nil if there are problems. The low-level
// parser of go-toml gives places but does not tell what TOML forbids; all repeated keys are
// found here, and the rest is left to the library's own decoder, which has the last word.
func parse(file string, data []byte) (*node, Problems) {
	r := read(file, data)
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	return r.root, nil
}

// read is parse with all there is to know. Of a file with problems, the tree has what could
// be read.
func read(file string, data []byte) *reader {
	data = bytes.TrimPrefix(data, []byte("\uFEFF")) // editors of some systems write one
	r := &reader{file: file, data: data}
	r.root = newTable(Pos{File: file, Line: 1, Col: 1})
	r.current = r.root
	if len(data) > maxFile {
		r.problems.add(Pos{File: file}, "is larger than %d bytes", maxFile)
		return r
	}
	if !utf8.Valid(data) {
		r.problems.add(Pos{File: file}, "is not UTF-8")
		return r
	}
	r.index()
	r.statements()
	switch {
	case r.nodes > maxNodes:
		r.problems = nil
		r.problems.add(Pos{File: file}, "has more than %d values", maxNodes)
		r.root = newTable(r.root.at)
	case len(r.problems) == 0:
		if err := toml.Unmarshal(data, &map[string]any{}); err != nil {
			r.syntax(err)
		}
	}
	return r
}

type reader struct {
	file     string
	data     []byte
	lines    []int // where each begins
	root     *node
	current  *node // the table that keys go to; nil after a bad header
	problems Problems
	nodes    int
	from     int   // where the parser was set going
	lacking  []Pos // tables of which something could not be read
}

func (r *reader) index() {
	r.lines = []int{0}
	for i, c := range r.data {
		if c == '\n' {
			r.lines = append(r.lines, i+1)
		}
	}
}

// pos finds the line of an offset. (The parser's own way goes through the whole file,
// for each value.)
func (r *reader) pos(offset int) Pos {
	line := sort.SearchInts(r.lines, offset+1)
	start := r.lines[line-1]
	return Pos{r.file, line, 1 + utf8.RuneCount(r.data[start:min(offset, start+1000)])}
}

// syntax notes what the library says, and returns the offset that it is about, -1 if it does
// not say.
func (r *reader) syntax(err error) int {
	at, offset := Pos{File: r.file}, -1
	var parser *unstable.ParserError
	var decode *toml.DecodeError
	msg := strings.TrimPrefix(err.Error(), "toml: ")
	switch {
	case errors.As(err, &decode):
		at.Line, at.Col = decode.Position()
	case errors.As(err, &parser):
		msg = parser.Message
		if len(parser.Highlight) > 0 {
			if i := cap(r.data) - cap(parser.Highlight); i >= 0 && i <= len(r.data) {
				at, offset = r.pos(i), i
			}
		}
	}
	if strings.HasSuffix(msg, "at start of value") && offset >= 0 && isLetter(r.data[offset]) {
		msg += ": text is written in quotes"
	}
	r.problems.add(at, "%s", msg)
	return offset
}

func (r *reader) expression(e *unstable.Node) {
	switch e.Kind {
	case unstable.Table, unstable.ArrayTable:
		r.current = r.header(e)
	case unstable.KeyValue:
		if r.current != nil {
			r.keyValue(r.current, e, 0)
		}
	}
}

// A part is one name of a dotted key.
type part struct {
	name string
	at   Pos
}

func (r *reader) key(e *unstable.Node) (parts []part) {
	for it := e.Key(); it.Next(); {
		n := it.Node()
		parts = append(parts, part{string(n.Data), r.pos(r.from + int(n.Raw.Offset))})
	}
	if len(parts) > maxDepth {
		r.problems.add(parts[0].at, "is nested more than %d deep", maxDepth)
		return nil
	}
	r.nodes += len(parts)
	return parts
}

// header finds or makes the table of a [header] or [[header]].
func (r *reader) header(e *unstable.Node) *node {
	parts := r.key(e)
	if len(parts) == 0 {
		return nil
	}
	at := r.root
	for _, p := range parts[:len(parts)-1] {
		next := at.fields[p.name]
		if next == nil {
			next = newTable(p.at)
			at.set(p.name, next)
		}
		if next.ofTables {
			next = next.items[len(next.items)-1]
		}
		if next.kind != table || next.inline {
			r.twice(p, next)
			return nil
		}
		at = next
	}
	last := parts[len(parts)-1]
	old := at.fields[last.name]
	fresh := newTable(last.at)
	fresh.header = true
	if e.Kind == unstable.ArrayTable {
		if old == nil {
			old = &node{kind: list, at: last.at, key: last.at, ofTables: true}
			at.set(last.name, old)
		}
		if !old.ofTables {
			r.twice(last, old)
			return nil
		}
		old.items = append(old.items, fresh)
		return fresh
	}
	switch {
	case old == nil:
		at.set(last.name, fresh)
		return fresh
	case old.kind != table || old.inline:
		r.twice(last, old)
		return nil
	case old.header || old.dotted:
		r.twice(last, old)
		return old // its keys may be wrong as well
	}
	old.header, old.at, old.key = true, last.at, last.at
	return old
}

func (r *reader) twice(p part, old *node) {
	r.problems.add(p.at, "%s is there already, on line %d", quote(p.name), old.key.Line)
}

func (r *reader) keyValue(in *node, e *unstable.Node, depth int) {
	parts := r.key(e)
	if len(parts) == 0 {
		return
	}
	for _, p := range parts[:len(parts)-1] {
		next := in.fields[p.name]
		if next == nil {
			next = newTable(p.at)
			next.dotted = true
			in.set(p.name, next)
		}
		if next.kind != table || next.inline {
			r.twice(p, next)
			return
		}
		in = next
	}
	last := parts[len(parts)-1]
	value := r.value(e.Value(), last.at, depth+len(parts))
	if old := in.fields[last.name]; old != nil {
		r.twice(last, old)
		return
	}
	if value != nil {
		in.set(last.name, value)
	}
}

func (r *reader) value(e *unstable.Node, key Pos, depth int) *node {
	n := &node{at: key, key: key}
	if e.Raw.Length > 0 {
		n.at = r.pos(r.from + int(e.Raw.Offset))
	}
	if r.nodes++; depth > maxDepth {
		r.problems.add(n.at, "is nested more than %d deep", maxDepth)
		return nil
	}
	if r.nodes > maxNodes {
		return nil
	}
	bare := string(bytes.ReplaceAll(e.Data, []byte("_"), nil))
	var err error
	switch e.Kind {
	case unstable.String:
		n.kind, n.text = text, string(e.Data)
	case unstable.Bool:
		n.kind, n.truth = truth, len(e.Data) > 0 && e.Data[0] == 't'
	case unstable.Integer:
		n.kind = whole
		n.whole, err = strconv.ParseInt(strings.TrimPrefix(bare, "+"), base(bare), 64)
	case unstable.Float:
		n.kind = number
		n.number, err = strconv.ParseFloat(bare, 64)
	case unstable.Array:
		n.kind = list
		for it := e.Children(); it.Next(); {
			if it.Node().Kind == unstable.Comment {
				continue
			}
			if item := r.value(it.Node(), key, depth+1); item != nil {
				n.items = append(n.items, item)
			}
		}
	case unstable.InlineTable:
		n.kind, n.fields = table, map[string]*node{}
		for it := e.Children(); it.Next(); {
			if it.Node().Kind == unstable.KeyValue {
				r.keyValue(n, it.Node(), depth+1)
			}
		}
		n.inline = true
	default:
		n.kind = date
	}
	if err != nil {
		r.problems.add(n.at, "%s is not a number that fits", quote(string(e.Data)))
	}
	return n
}

// base is that of a whole number as TOML writes it: a leading zero means nothing.
func base(s string) int {
	if len(s) > 2 && s[0] == '0' && strings.IndexByte("xob", s[1]) >= 0 {
		return 0
	}
	return 10
}

// quote shows a name of a stranger's in a message, shortened.
func quote(s string) string {
	const longest = 60
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return strconv.Quote(s)
}

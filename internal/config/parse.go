package config

import (
	"bytes"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/cofferhq/coffer/internal/ui"
	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Bounds on a file. It may be a stranger's, and is read before anybody was asked.
const (
	maxFile  = 256 << 10
	maxNodes = 5000
)

// parse decodes a file and returns a tree of its values with their positions. An error of the TOML
// decoder is the only problem; otherwise unknown keys and words are.
func parse(file string, data []byte, into any) (*node, Problems) {
	var problems Problems
	data = bytes.TrimPrefix(data, []byte("\uFEFF")) // editors of some systems write one
	if len(data) > maxFile {
		problems.add(Pos{File: file}, "is larger than %d bytes", maxFile)
		return nil, problems
	}
	if err := toml.Unmarshal(data, into); err != nil {
		problems = append(problems, decodeProblem(file, err))
		return nil, problems
	}
	r := &reader{file: file, data: data, lines: []int{0}}
	tree := r.read()
	if r.nodes > maxNodes {
		problems.add(Pos{File: file}, "has more than %d values", maxNodes)
		return nil, problems
	}
	problems.check(tree, reflect.TypeOf(into).Elem(), "", "")
	return tree, problems
}

// decodeProblem is what the decoder says, without its words for types of Go.
func decodeProblem(file string, err error) Problem {
	at, msg := Pos{File: file}, strings.TrimPrefix(err.Error(), "toml: ")
	var where *toml.DecodeError
	if errors.As(err, &where) {
		at.Line, at.Col = where.Position()
		kind, _, typed := strings.Cut(strings.TrimPrefix(msg, "cannot decode TOML "), " into ")
		if key := where.Key(); typed && len(key) > 0 {
			msg = strings.Join(key, ".") + " cannot be a TOML " + kind
		}
	}
	return Problem{at, msg}
}

// A reader makes the tree of a file that was decoded without errors.
type reader struct {
	file  string
	data  []byte
	lines []int // where each begins
	nodes int
}

func (r *reader) read() *node {
	for i, c := range r.data {
		if c == '\n' {
			r.lines = append(r.lines, i+1)
		}
	}
	root := newTable(Pos{File: r.file, Line: 1, Col: 1})
	current := root
	var p unstable.Parser
	p.Reset(r.data)
	for r.nodes <= maxNodes && p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			current = r.header(root, e)
		case unstable.KeyValue:
			r.keyValue(current, e)
		}
	}
	return root
}

// pos finds the line and the column, in bytes, of an offset.
func (r *reader) pos(n *unstable.Node) Pos {
	offset := int(n.Raw.Offset)
	line := sort.SearchInts(r.lines, offset+1)
	return Pos{r.file, line, 1 + offset - r.lines[line-1]}
}

// below finds or makes the node of a name in a table. Of a list of tables, it is the last.
func (r *reader) below(table *node, name string, at Pos) *node {
	n := table.fields[name]
	if n == nil {
		n = newTable(at)
		table.fields[name] = n
		r.nodes++
	}
	if len(n.items) > 0 {
		n = n.items[len(n.items)-1]
	}
	return n
}

// header returns the table of a [header] or [[header]].
func (r *reader) header(table *node, e *unstable.Node) *node {
	for it := e.Key(); it.Next(); {
		name, at := string(it.Node().Data), r.pos(it.Node())
		if !it.IsLast() || e.Kind == unstable.Table {
			table = r.below(table, name, at)
			continue
		}
		list := table.fields[name]
		if list == nil {
			list = &node{at: at, key: at}
			table.fields[name] = list
		}
		table = newTable(at)
		list.items = append(list.items, table)
		r.nodes++
	}
	return table
}

func (r *reader) keyValue(table *node, e *unstable.Node) {
	for it := e.Key(); it.Next(); {
		name, at := string(it.Node().Data), r.pos(it.Node())
		if it.IsLast() {
			table.fields[name] = r.value(e.Value(), at)
			return
		}
		table = r.below(table, name, at)
	}
}

func (r *reader) value(e *unstable.Node, key Pos) *node {
	n := &node{at: key, key: key}
	if e.Raw.Length > 0 {
		n.at = r.pos(e)
	}
	r.nodes++
	bare := strings.ReplaceAll(string(e.Data), "_", "")
	switch e.Kind {
	case unstable.String:
		n.value = string(e.Data)
	case unstable.Bool:
		n.value = bare == "true"
	case unstable.Integer:
		n.value = wholeNumber(bare)
	case unstable.Float:
		n.value, _ = strconv.ParseFloat(bare, 64) // it was decoded already
	case unstable.InlineTable:
		n.fields = map[string]*node{}
		for it := e.Children(); it.Next(); {
			r.keyValue(n, it.Node())
		}
	case unstable.Array:
		for it := e.Children(); it.Next(); {
			n.items = append(n.items, r.value(it.Node(), key))
		}
	default:
		n.value = bare // a date, which is nothing that a config has
	}
	return n
}

// wholeNumber reads one as TOML writes it. It was decoded already.
func wholeNumber(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		n, _ = strconv.ParseInt(s, 0, 64)
	}
	return n
}

// check notes the keys that a type does not have, and words that are none of the choices.
func (p *Problems) check(n *node, t reflect.Type, path, enum string) {
	switch t.Kind() {
	case reflect.Pointer:
		p.check(n, t.Elem(), path, enum)
	case reflect.Map:
		for name, f := range n.fields {
			p.check(f, t.Elem(), join(path, name), "")
		}
	case reflect.Slice:
		for _, item := range n.items {
			p.check(item, t.Elem(), path, enum)
		}
	case reflect.Struct:
		known := keys(t)
		for name, f := range n.fields {
			if k, ok := known[name]; ok {
				p.check(f, k.Type, join(path, name), k.Tag.Get("enum"))
				continue
			}
			in := ""
			if path != "" {
				in = " in " + path
			}
			p.add(f.key, "unknown key %s%s: %s", quote(name), in, didYouMean(name, slices.Sorted(maps.Keys(known))))
		}
	case reflect.String:
		if choices := strings.Split(enum, ","); enum != "" && !slices.Contains(choices, n.text()) {
			p.add(n.at, "%s cannot be %s: %s", path, quote(n.text()), didYouMean(n.text(), choices))
		}
	}
}

// keys are the fields of a struct by the names that they have in a file.
func keys(t reflect.Type) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	for f := range t.Fields() {
		if name := f.Tag.Get("toml"); name != "" && name != "-" {
			fields[name] = f
		}
	}
	return fields
}

func join(path, name string) string {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" || name == "" {
		name = tomlString(name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// didYouMean names the nearest of the names, or all.
func didYouMean(word string, names []string) string {
	if best := ui.Nearest(word, names); best != "" {
		return "did you mean " + quote(best) + "?"
	}
	return "there are " + strings.Join(names, ", ")
}

// quote shows a name of a stranger's in a message, shortened.
func quote(s string) string { return strconv.Quote(ui.Clip(s, 60)) }

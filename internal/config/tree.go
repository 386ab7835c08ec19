package config

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// A Pos is a place in a file.
type Pos struct {
	File      string
	Line, Col int
}

// String is as compilers write it.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Origin is the place without the column.
func (p Pos) Origin() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// A Problem is one mistake in a file.
type Problem struct {
	Pos
	Msg string
}

func (p Problem) Error() string { return p.Pos.String() + ": " + p.Msg }

// Problems are all mistakes that were found.
type Problems []Problem

// most is how many mistakes are worth telling: a file may be a stranger's.
const most = 50

func (p Problems) Error() string {
	var b strings.Builder
	for i, one := range p {
		if i == most {
			fmt.Fprintf(&b, "\nand %d more", len(p)-most)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(one.Error())
	}
	return b.String()
}

// Hint is the way out.
func (p Problems) Hint() string { return "'coffer config schema' describes every key" }

func (p *Problems) add(at Pos, format string, args ...any) {
	*p = append(*p, Problem{at, fmt.Sprintf(format, args...)})
}

// besides are those in other places than others and than some tables.
func (p Problems) besides(others Problems, tables []Pos) Problems {
	return slices.DeleteFunc(slices.Clone(p), func(one Problem) bool {
		return slices.Contains(tables, one.Pos) || slices.ContainsFunc(others, func(o Problem) bool { return o.Pos == one.Pos })
	})
}

// tidy sorts by place within each file and drops what is said twice.
func (p Problems) tidy() error {
	if len(p) == 0 {
		return nil
	}
	order := map[string]int{}
	for _, one := range p {
		if _, ok := order[one.File]; !ok {
			order[one.File] = len(order)
		}
	}
	sort.SliceStable(p, func(i, j int) bool {
		a, b := p[i], p[j]
		switch {
		case a.File != b.File:
			return order[a.File] < order[b.File]
		case a.Line != b.Line:
			return a.Line < b.Line
		}
		return a.Col < b.Col
	})
	out := p[:1]
	for _, one := range p[1:] {
		if one != out[len(out)-1] {
			out = append(out, one)
		}
	}
	return out
}

type kind uint8

const (
	table kind = iota
	list
	text
	whole
	number
	truth
	date
)

var kindNames = [...]string{"a table", "a list", "text", "a whole number", "a number", "true or false", "a date"}

func (k kind) String() string { return kindNames[k] }

// A node is a value of a file.
type node struct {
	kind kind
	at   Pos // the value, or the key where the parser does not tell
	key  Pos // the key it belongs to

	text   string
	whole  int64
	number float64
	truth  bool
	items  []*node          // of a list
	fields map[string]*node // of a table
	order  []string         // the keys of a table as written

	// How it came to be, to tell what may be added to it.
	inline   bool // written in one piece: complete
	header   bool // has had its [header]
	dotted   bool // made by a dotted key
	ofTables bool // a list made by [[headers]]
}

func newTable(at Pos) *node { return &node{kind: table, at: at, key: at, fields: map[string]*node{}} }

func (n *node) set(name string, child *node) {
	if _, ok := n.fields[name]; !ok {
		n.order = append(n.order, name)
	}
	n.fields[name] = child
}

// get walks down by names, and by numbers in lists; nil if there is no such node.
func (n *node) get(path ...any) *node {
	for _, p := range path {
		if n == nil {
			return nil
		}
		switch p := p.(type) {
		case string:
			n = n.fields[p]
		case int:
			if p < 0 || p >= len(n.items) {
				return nil
			}
			n = n.items[p]
		}
	}
	return n
}

// equal compares values, not places.
func (n *node) equal(o *node) bool {
	if n.kind != o.kind || n.text != o.text || n.whole != o.whole || n.number != o.number || n.truth != o.truth ||
		len(n.items) != len(o.items) || len(n.fields) != len(o.fields) {
		return false
	}
	for i := range n.items {
		if !n.items[i].equal(o.items[i]) {
			return false
		}
	}
	for k, v := range n.fields {
		if w := o.fields[k]; w == nil || !v.equal(w) {
			return false
		}
	}
	return true
}

package config

import (
	"fmt"
	"maps"
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

// builtin is the name of the file that the defaults are in, whose lines mean nothing.
const builtin = "built-in"

// Origin is the place without the column.
func (p Pos) Origin() string {
	if p.Line == 0 || p.File == builtin {
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
	var lines []string
	for _, one := range p[:min(len(p), most)] {
		lines = append(lines, one.Error())
	}
	if len(p) > most {
		lines = append(lines, fmt.Sprintf("and %d more", len(p)-most))
	}
	return strings.Join(lines, "\n")
}

// Hint is the way out.
func (p Problems) Hint() string { return "'coffer config schema' describes every key" }

func (p *Problems) add(at Pos, format string, args ...any) {
	*p = append(*p, Problem{at, fmt.Sprintf(format, args...)})
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
	return slices.Compact(p)
}

// A node is a value of a file, with its place.
type node struct {
	at  Pos // of the value, or of the key where the parser does not tell
	key Pos // of the key that it belongs to

	value  any              // a string, int64, float64 or bool; nil for a list or a table
	items  []*node          // of a list
	fields map[string]*node // of a table; nil for all else
}

func newTable(at Pos) *node { return &node{at: at, key: at, fields: map[string]*node{}} }

// names are the keys of a table, sorted.
func (n *node) names() []string { return slices.Sorted(maps.Keys(n.fields)) }

// text is the value, or "" if it is none.
func (n *node) text() string {
	s, _ := n.value.(string)
	return s
}

func (n *node) isTable() bool { return n.fields != nil }
func (n *node) isList() bool  { return n.fields == nil && n.value == nil }
func (n *node) isListOfTables() bool {
	return len(n.items) > 0 && n.items[0].isTable()
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

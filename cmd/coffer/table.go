package main

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cofferhq/coffer/internal/terminal"
)

// A table is a listing in columns, the first row being their names. A pipe gets all of
// it; a person gets the columns that fit on the screen and say something.
type table [][]string

// columnGap is the space between two columns.
const columnGap = 2

func (t table) print(w io.Writer) {
	widths := t.widths()
	for _, row := range t {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+columnGap))
		}
		_, _ = io.WriteString(w, strings.TrimRight(line.String(), " ")+"\n")
	}
}

// fit leaves out columns in which nothing is said, and then, of those that can be spared,
// the first ones until the rest is no wider than the screen.
func (t table) fit(width int, spare ...string) table {
	for _, name := range slices.Clone(t[0]) {
		i := slices.Index(t[0], name)
		if !slices.ContainsFunc(t[1:], func(row []string) bool { return row[i] != "-" && row[i] != "" }) {
			t = t.without(i)
		}
	}
	for _, name := range spare {
		total := -columnGap
		for _, w := range t.widths() {
			total += w + columnGap
		}
		if total <= width {
			break
		}
		if i := slices.Index(t[0], name); i >= 0 {
			t = t.without(i)
		}
	}
	return t
}

func (t table) without(column int) table {
	less := make(table, len(t))
	for i, row := range t {
		less[i] = slices.Delete(slices.Clone(row), column, column+1)
	}
	return less
}

func (t table) widths() []int {
	widths := make([]int, len(t[0]))
	for _, row := range t {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// add appends a row, whose cells may come from anywhere.
func (t *table) add(cells ...string) {
	for i := range cells {
		cells[i] = terminal.Escape(cells[i])
	}
	*t = append(*t, cells)
}

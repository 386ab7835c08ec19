package ui

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cofferhq/coffer/internal/terminal"
)

// A Table is a listing in columns, the first row being their names. A pipe gets all of
// it; a person gets the columns that fit on the screen and say something.
type Table [][]string

// columnGap is the space between two columns.
const columnGap = 2

// Add appends a row, whose cells may come from anywhere.
func (t *Table) Add(cells ...string) {
	for i := range cells {
		cells[i] = terminal.Escape(cells[i])
	}
	*t = append(*t, cells)
}

// Row appends a name and its value, if there is one.
func (t *Table) Row(name, value string) {
	if value != "" {
		t.Add(name, value)
	}
}

// Print writes the table.
func (t Table) Print(w io.Writer) error {
	widths := t.widths()
	var b strings.Builder
	for _, row := range t {
		b.WriteString(padded(row, widths) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// padded is a row in columns of these widths.
func padded(row []string, widths []int) string {
	for len(row) > 0 && row[len(row)-1] == "" {
		row = row[:len(row)-1]
	}
	var line strings.Builder
	for i, cell := range row {
		gap := 0
		if i < len(row)-1 {
			gap = max(0, widths[i]-utf8.RuneCountInString(cell)) + columnGap
		}
		line.WriteString(cell + strings.Repeat(" ", gap))
	}
	return line.String()
}

// leastLast is how wide the last column is at least before it is cut.
const leastLast = 24

// Fit makes a table fit a screen. It leaves out columns that say nothing, then those of spare, the
// first ones first, until the rest has room. The last column is cut before anything is left out.
func (t Table) Fit(width int, spare ...string) Table {
	if len(t) < 2 {
		return t
	}
	for _, name := range slices.Clone(t[0]) {
		i := slices.Index(t[0], name)
		if !slices.ContainsFunc(t[1:], func(row []string) bool { return row[i] != "-" && row[i] != "" }) {
			t = t.without(i)
		}
	}
	for _, name := range spare {
		if i := slices.Index(t[0], name); i >= 0 && t.room(width) < min(leastLast, t.widths()[len(t[0])-1]) {
			t = t.without(i)
		}
	}
	room := max(t.room(width), leastLast)
	t = slices.Clone(t)
	for i, row := range t {
		last := len(row) - 1
		t[i] = append(slices.Clone(row[:last]), cut(row[last], room+1))
	}
	return t
}

// room is what a screen has left for the last column.
func (t Table) room(width int) int {
	widths := t.widths()
	for _, w := range widths[:len(widths)-1] {
		width -= w + columnGap
	}
	return width
}

func (t Table) without(column int) Table {
	less := make(Table, len(t))
	for i, row := range t {
		less[i] = slices.Delete(slices.Clone(row), column, column+1)
	}
	return less
}

func (t Table) widths() (widths []int) {
	for _, row := range t {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// Few lists the first three of several names in a sentence, and says how many more there are.
func Few(names []string) string {
	const most = 3
	text := strings.Join(names[:min(most, len(names))], ", ")
	if n := len(names) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// Clip cuts a text that is longer than most bytes.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

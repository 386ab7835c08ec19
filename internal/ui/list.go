package ui

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// An Item is a line to choose, in columns.
type Item []string

// A list is what is on the screen, without the screen: keys change it, and lines are what
// it looks like.
type list struct {
	title  string
	keys   string // what keys do, for as long as nothing was typed
	items  []Item
	query  []rune
	hits   []int // of items
	at     int   // in hits
	top    int   // the first of hits that is shown
	height int   // how many of them are
}

func newList(title string, items []Item, height int) *list {
	l := &list{title: title, items: items, height: max(1, height)}
	l.filter()
	return l
}

// filter finds the items that have every word of the query, and goes to the first.
func (l *list) filter() {
	l.hits, l.at, l.top = nil, 0, 0
	for i, item := range l.items {
		if match(string(l.query), strings.Join(item, " ")) {
			l.hits = append(l.hits, i)
		}
	}
}

func match(query, text string) bool {
	text = strings.ToLower(text)
	for word := range strings.FieldsSeq(strings.ToLower(query)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// What a key does to the choice.
type outcome int

const (
	going outcome = iota
	chosen
	cancelled
	interrupted
)

// key takes a key, by its name or as the text that it types.
func (l *list) key(k string) outcome {
	switch k {
	case "enter":
		if len(l.hits) == 0 {
			return going
		}
		return chosen
	case "cancel":
		return cancelled
	case "interrupt":
		return interrupted
	case "up":
		l.move(-1)
	case "down":
		l.move(1)
	case "page up":
		l.move(-l.height)
	case "page down":
		l.move(l.height)
	case "erase":
		if len(l.query) > 0 {
			l.query = l.query[:len(l.query)-1]
			l.filter()
		}
	case "erase all":
		l.query = nil
		l.filter()
	case "", unknown:
	default:
		if r, _ := utf8.DecodeRuneInString(k); unicode.IsPrint(r) && len(l.query) < 100 {
			l.query = append(l.query, []rune(k)...)
			l.filter()
		}
	}
	return going
}

func (l *list) move(n int) {
	l.at = max(0, min(l.at+n, len(l.hits)-1))
	l.top = max(0, min(l.top, l.at), l.at-l.height+1)
}

// tall sets how many lines there is room for.
func (l *list) tall(height int) {
	l.height = max(1, height)
	l.move(0)
}

// lines is what it looks like. Each fits into the width.
func (l *list) lines(width int) []string {
	head := l.title
	if len(l.query) > 0 {
		head += ": " + string(l.query)
	} else if l.keys != "" && utf8.RuneCountInString(head+l.keys)+4 < width {
		head += "  (" + l.keys + ")"
	}
	out := []string{cut(head, width)}
	if len(l.hits) == 0 {
		return append(out, cut("  nothing matches (Backspace, or Esc to leave)", width))
	}
	widths := l.widths()
	for i := l.top; i < min(l.top+l.height, len(l.hits)); i++ {
		mark := "  "
		if i == l.at {
			mark = "> "
		}
		out = append(out, cut(mark+padded(l.items[l.hits[i]], widths), width))
	}
	return out
}

// widths are those of the columns. A line of one column is a sentence, and does not count.
func (l *list) widths() []int {
	var t Table
	for _, item := range l.items {
		if len(item) == 1 {
			item = nil
		}
		t = append(t, item)
	}
	return t.widths()
}

// cut shortens a line to a width, less one: some terminals go to the next line when the
// last column is written.
func cut(s string, width int) string {
	if width <= 1 || utf8.RuneCountInString(s) < width {
		return s
	}
	r := []rune(s)
	return string(r[:max(0, width-2)]) + "…"
}

package ui

import (
	"slices"
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
	hits   []int // of items, the best first
	at     int   // in hits
	top    int   // the first of hits that is shown
	height int   // how many of them are
}

func newList(title string, items []Item, height int) *list {
	l := &list{title: title, items: items, height: max(1, height)}
	l.filter()
	return l
}

// filter finds what matches, and goes to the first.
func (l *list) filter() {
	l.hits, l.at, l.top = nil, 0, 0
	scores := map[int]int{}
	for i, item := range l.items {
		if score, ok := match(string(l.query), strings.Join(item, " ")); ok {
			l.hits = append(l.hits, i)
			scores[i] = score
		}
	}
	slices.SortStableFunc(l.hits, func(a, b int) int { return scores[b] - scores[a] })
}

// match says whether the letters of a query are in a text, in this order, and how well:
// letters that follow each other, and such that begin a word, count more. Words of the
// query are looked for one by one.
func match(query, text string) (score int, ok bool) {
	lower := []rune(strings.ToLower(text))
	for word := range strings.FieldsSeq(strings.ToLower(query)) {
		if i := strings.Index(string(lower), word); i >= 0 {
			score += 10 * len(word)
			if i == 0 || !isWord(rune(string(lower)[i-1])) {
				score += 5
			}
			continue
		}
		from, last := 0, -2
		for _, r := range word {
			i := slices.Index(lower[from:], r)
			if i < 0 {
				return 0, false
			}
			i += from
			score++
			if i == last+1 {
				score += 2
			}
			if i == 0 || !isWord(lower[i-1]) {
				score += 2
			}
			from, last = i+1, i
		}
	}
	return score, true
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

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
	case "home":
		l.move(-len(l.hits))
	case "end":
		l.move(len(l.hits))
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

// tall is about how many lines there is room for.
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
		var b strings.Builder
		b.WriteString(mark)
		item := l.items[l.hits[i]]
		for n, col := range item {
			b.WriteString(col)
			if n < len(item)-1 {
				b.WriteString(strings.Repeat(" ", 2+max(0, widths[n]-utf8.RuneCountInString(col))))
			}
		}
		out = append(out, cut(strings.TrimRight(b.String(), " "), width))
	}
	return out
}

// widths are those of the columns. A line of one column is a sentence, and does not count.
func (l *list) widths() (w []int) {
	for _, item := range l.items {
		for n, col := range item {
			if n == len(w) {
				w = append(w, 0)
			}
			if len(item) > 1 {
				w[n] = max(w[n], utf8.RuneCountInString(col))
			}
		}
	}
	return w
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

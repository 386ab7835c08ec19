package ui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cofferhq/coffer/internal/terminal"
)

// ErrCancelled says that the user chose nothing.
var ErrCancelled = errors.New("nothing was chosen")

// ErrInterrupted says that the user pressed Ctrl-C, which made no signal: the terminal was in
// raw mode.
var ErrInterrupted = errors.New("interrupted")

// most is how many lines are shown at a time.
const most = 12

// An Item is a line to choose, in columns.
type Item []string

// Choose shows a list on a terminal and returns the index of the item that the user chooses, by
// the arrow keys or by typing letters of it. If ctx ends first, the error is its cause.
//
// It draws below the cursor with the control sequences of a VT100 and leaves nothing behind.
// charm's huh would be 22 modules for this one list.
func Choose(ctx context.Context, tty *os.File, title string, items []Item) (int, error) {
	state, err := terminal.Raw(int(tty.Fd()))
	if err != nil {
		return 0, err
	}
	defer state.Restore()
	l := newList(title, items)
	drawn := 0
	defer func() { io.WriteString(tty, erased(drawn)+"\x1b[?25h") }()
	for {
		width, height := size(int(tty.Fd()))
		l.height = max(1, min(most, height-2))
		lines := l.lines(width)
		io.WriteString(tty, "\x1b[?25l"+erased(drawn)+strings.Join(lines, "\r\n"))
		drawn = len(lines)
		in, err := readFrom(ctx, tty, 256)
		if err != nil {
			return 0, err
		}
		if len(in) == 0 {
			return 0, ErrCancelled
		}
		for len(in) > 0 {
			var key string
			key, in = nextKey(in)
			switch key {
			case "\r", "\n":
				if len(l.hits) > 0 {
					return l.hits[l.at], nil
				}
			case "\x03":
				return 0, ErrInterrupted
			case "\x04", "\x07", "\x1b":
				return 0, ErrCancelled
			default:
				l.press(key)
			}
		}
	}
}

// erased moves to the first of the lines that were drawn, and erases them.
func erased(lines int) string {
	if lines < 2 {
		return "\r\x1b[J"
	}
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", lines-1)
}

// size is that of a terminal, or the usual one if it does not say.
func size(fd int) (width, height int) {
	if width, height, _ = terminal.Size(fd); width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// nextKey takes the first key off what was read. Terminals send a sequence in one piece.
func nextKey(in []byte) (key string, rest []byte) {
	n := 2
	switch {
	case len(in) > 1 && in[0] == 0x1b && (in[1] == '[' || in[1] == 'O'):
		for n < len(in) && (in[n] < 0x40 || in[n] > 0x7e) {
			n++
		}
		n = min(n+1, len(in))
	default:
		_, n = utf8.DecodeRune(in)
	}
	return string(in[:n]), in[n:]
}

// A list is what is on the screen, without the screen: keys change it, and lines are what
// it looks like.
type list struct {
	title  string
	items  Table
	query  []rune
	hits   []int // of items
	at     int   // in hits
	top    int   // the first of hits that is shown
	height int   // how many of them are
}

func newList(title string, items []Item) *list {
	l := &list{title: title, height: most}
	for _, item := range items {
		l.items.Add(slices.Clone(item)...)
	}
	l.search(nil)
	return l
}

// search finds the items that have every word of a query, and goes to the first.
func (l *list) search(query []rune) {
	l.query, l.hits, l.at, l.top = query, nil, 0, 0
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

// press moves in the list, or changes what is searched for.
func (l *list) press(key string) {
	switch key {
	case "\x1b[A", "\x1bOA", "\x1b[Z", "\x10":
		l.move(-1)
	case "\x1b[B", "\x1bOB", "\t", "\x0e":
		l.move(1)
	case "\x1b[5~":
		l.move(-l.height)
	case "\x1b[6~":
		l.move(l.height)
	case "\x7f", "\x08":
		l.search(l.query[:max(0, len(l.query)-1)])
	case "\x15", "\x17":
		l.search(nil)
	default:
		if r, _ := utf8.DecodeRuneInString(key); unicode.IsPrint(r) && len(l.query) < 100 {
			l.search(append(l.query, r))
		}
	}
}

func (l *list) move(n int) {
	l.at = max(0, min(l.at+n, len(l.hits)-1))
	l.top = max(0, min(l.top, l.at), l.at-l.height+1)
}

// lines is what it looks like. Each fits into the width.
func (l *list) lines(width int) []string {
	l.move(0)
	head := l.title + "  (arrows and Enter; letters search; Esc leaves)"
	if len(l.query) > 0 || utf8.RuneCountInString(head) >= width {
		head = strings.TrimSuffix(l.title+": "+string(l.query), ": ")
	}
	out := []string{cut(head, width)}
	if len(l.hits) == 0 {
		return append(out, cut("  nothing matches (Backspace, or Esc to leave)", width))
	}
	widths := l.widths()
	for i := l.top; i < min(l.top+l.height, len(l.hits)); i++ {
		row := padded(l.items[l.hits[i]], widths)
		if i == l.at {
			row = "\x1b[7m" + cut("> "+row, width) + "\x1b[0m"
		} else {
			row = cut("  "+row, width)
		}
		out = append(out, row)
	}
	return out
}

// widths are those of the columns. A line of one column is a sentence, and does not count.
func (l *list) widths() []int {
	return Table(slices.DeleteFunc(slices.Clone(l.items), func(row []string) bool { return len(row) == 1 })).widths()
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

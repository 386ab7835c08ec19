package terminal

import (
	"bytes"
	"fmt"
)

// maxReplay is how much is kept of what a program has shown.
const maxReplay = 256 << 10

// A Replay keeps the end of what a program on a terminal has shown, so that it can be
// shown on another terminal later. What asked the first terminal something, or notified
// the user, does so only once.
//
// It is not the guard of the other terminal: what it gives has to pass a [Filter] there.
type Replay struct {
	filter *Filter
	past   []byte
}

// NewReplay is empty.
func NewReplay() *Replay {
	r := &Replay{}
	r.filter = NewFilter(keep{r}, Options{})
	r.filter.again = true
	return r
}

// Write takes what a program prints.
func (r *Replay) Write(p []byte) (int, error) { return r.filter.Write(p) }

// FullScreen is that of [Filter].
func (r *Replay) FullScreen() bool { return r.filter.FullScreen() }

// Show is what brings a new terminal to where the first one is: the text, and how the
// keyboard and the mouse are to speak. A program that has the whole screen to itself is
// expected to draw it anew, and nothing of it is shown.
func (r *Replay) Show() []byte {
	var out []byte
	if !r.FullScreen() {
		out = append(out, r.past...)
	}
	return append(out, r.filter.Redo()...)
}

// Leave is what puts a terminal in order that has been shown all so far, and will not be
// shown what comes next: it may be in the middle of a sequence.
func (r *Replay) Leave() []byte { return append([]byte{can}, r.filter.Undo()...) }

// keep holds on to what passes, and forgets the oldest lines. Between two lines there is
// never half a sequence.
type keep struct{ r *Replay }

func (k keep) Write(p []byte) (int, error) {
	past := append(k.r.past, p...)
	if extra := len(past) - maxReplay; extra > 0 {
		if end := bytes.IndexByte(past[extra:], '\n'); end >= 0 {
			extra += end + 1
		} else {
			extra = len(past) // one line without an end: none of it is missed
		}
		past = append(past[:0], past[extra:]...)
	}
	k.r.past = past
	return len(p), nil
}

// draws says whether a sequence that may pass does nothing but draw. What the keyboard is
// told is left to Redo, which does it once.
func (f *Filter) draws(v verdict) bool {
	switch f.seq[1] {
	case '[':
		switch f.csi.name() {
		case ">u", "<u", "=u", ">m", ">n", ">f", "t":
			return false
		case "?h", "?l", "?s", "?r":
			return true
		}
		return v == pass
	case ']':
		return bytes.HasPrefix(f.seq[2:], []byte("8;")) // a link
	case 'P', '_':
		return false
	}
	return v == pass
}

// Redo returns the sequences that do to a new terminal, or one that Undo was written to,
// what a program did to its own, as far as it would not do so again.
func (f *Filter) Redo() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	var b bytes.Buffer
	l := &f.left
	l.keyboards[0].redo(&b)
	if l.alt != 0 {
		fmt.Fprintf(&b, "\x1b[?%dh", l.alt)
		l.keyboards[1].redo(&b)
	}
	for i, to := range l.resources {
		if to != 0 {
			fmt.Fprintf(&b, "\x1b[>%d;%dm", i, to)
		}
	}
	if l.keypad {
		b.WriteString("\x1b=")
	}
	for _, u := range undoable {
		final := 'h'
		if u.back {
			final = 'l'
		}
		if l.modes[u.mode] && u.mode != 2026 {
			fmt.Fprintf(&b, "\x1b[?%d%c", u.mode, final)
		}
	}
	if l.modes[25] {
		b.WriteString("\x1b[?25l")
	}
	return b.Bytes()
}

func (k *keyboard) redo(b *bytes.Buffer) {
	if k.flags != 0 {
		fmt.Fprintf(b, "\x1b[=%du", k.flags)
	}
	for _, flags := range k.stack {
		fmt.Fprintf(b, "\x1b[>%du", flags)
	}
}

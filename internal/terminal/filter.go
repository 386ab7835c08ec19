package terminal

import (
	"io"
	"os"
	"sync"
	"unicode/utf8"
)

// Options says what a sandboxed program may do beyond drawing.
type Options struct {
	// ClipboardWrite lets the program replace the clipboard (OSC 52). Reading it is never allowed.
	ClipboardWrite bool
	// Lines is for a log or a listing. Text passes with its colours, and nothing that
	// moves the cursor away from the line it is on: no line may touch another.
	Lines bool
	// Unheard is for where nobody reads what the terminal says: it is asked nothing, and
	// not told to speak of its own accord. The shell would take it for typed.
	Unheard bool
}

// A Filter passes the bytes of a hostile program on to a terminal, without the sequences described
// in the package comment. Output does not depend on how the input is cut into writes. Memory is
// bounded by the longest write plus the longest sequence that is collected (maxString).
//
// One goroutine writes and closes; Asked and Undo may be called from any.
type Filter struct {
	w    io.Writer
	opts Options
	err  error  // what w answered first, or os.ErrClosed
	out  []byte // what the present write passes on, reused

	mu    sync.Mutex // guards what follows
	state state
	seq   []byte // the sequence being collected, from its ESC
	bad   bool   // the sequence being collected will be dropped
	csi   controlSeq
	kind  byte     // what opened the string: ] for OSC, P for DCS, …
	image *byteSet // the bytes the streamed image consists of
	rune  partial  // the beginning of a character, in text or in a string
	left  leftovers
	asked bool
	again bool // only what draws passes: see Replay
	aside bool // only lines pass: see Aside
}

// NewFilter returns a filter that writes to w.
func NewFilter(w io.Writer, opts Options) *Filter {
	return &Filter{w: w, opts: opts}
}

// Write filters p and writes what remains to the underlying writer at once;
// only an unfinished sequence or character is held back. The first error of
// the underlying writer stays: part of a sequence may have been lost with it.
func (f *Filter) Write(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	f.mu.Lock()
	out := f.filter(p)
	f.mu.Unlock()
	// Written outside the lock, so that Undo does not wait for a terminal that has stopped reading.
	if err := f.pass(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close drops a sequence that has not ended and closes an image that was cut
// off. It does not close the underlying writer.
func (f *Filter) Close() error {
	if f.err != nil {
		if f.err == os.ErrClosed {
			return nil
		}
		return f.err
	}
	f.mu.Lock()
	f.out = f.out[:0]
	switch f.state {
	case ground:
		f.breakRune()
	case image, imageEsc:
		f.emit(st)
	}
	f.state = ground
	f.mu.Unlock()
	err := f.pass(f.out)
	f.err, f.out, f.seq = os.ErrClosed, nil, nil
	return err
}

// Asked reports whether the terminal has been given reason to send something
// by itself: a query passed that it answers, or a mode that reports events.
func (f *Filter) Asked() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// FullScreen says whether the program has the alternate screen, or is in the middle
// of an image: a line from somebody else would spoil it.
func (f *Filter) FullScreen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left.alt != 0 || f.state == image || f.state == imageEsc
}

// Undo returns what puts the terminal back in order after a program that did
// not do so itself. It holds only what undoes something this filter let pass
// and has not seen undone, so it is empty after a well-behaved program.
func (f *Filter) Undo() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.aside {
		if f.left.coloured {
			return []byte("\x1b[m")
		}
		return nil
	}
	undo := f.left.undo()
	if f.state == image || f.state == imageEsc {
		undo = append([]byte(st), undo...)
	}
	return undo
}

// Aside says whether somebody else, a shell, has the terminal. As long as it does, text and
// colours pass, and the rest is only remembered: [Filter.Redo] makes up for it. Undo is to
// be written before, and undoes no more than colours meanwhile.
func (f *Filter) Aside(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.aside = on
}

func (f *Filter) pass(out []byte) error {
	if len(out) == 0 {
		return nil
	}
	n, err := f.w.Write(out)
	if err == nil && n < len(out) {
		err = io.ErrShortWrite
	}
	f.err = err
	return err
}

// filter returns what remains of p: p itself if all of it passes as it is, as
// most writes do, and otherwise f.out.
func (f *Filter) filter(p []byte) []byte {
	n := f.bulk(p)
	if n == len(p) {
		return p
	}
	f.out = append(f.out[:0], p[:n]...)
	for p = p[n:]; len(p) > 0; p = p[1:] {
		f.step(p[0])
		if n := f.bulk(p[1:]); n > 0 {
			f.out = append(f.out, p[1:1+n]...)
			p = p[n:]
		}
	}
	return f.out
}

// bulk returns how many bytes at the start of p pass without changing the
// state, by a loop that is many times faster than stepping through them.
func (f *Filter) bulk(p []byte) int {
	switch {
	case f.state == ground && f.rune.n == 0:
		return plain(p, f.controls())
	case f.state == image:
		return f.image.span(p)
	}
	return 0
}

// screenControls are the C0 controls that pass outside of sequences. SO and SI pass as well, but
// are noted on the way. Of the others ENQ makes the terminal send its answerback, CAN begins a
// ZMODEM transfer that Konsole and others offer to receive, and the rest does nothing on a screen.
var screenControls = setOf("\x00\a\b\t\n\v\f\r")

// lineControls are those that pass where lines are shown. A line may be begun anew, as
// those that show progress are.
var lineControls = setOf("\t\n\r")

func (f *Filter) controls() *byteSet {
	if f.opts.Lines || f.aside {
		return &lineControls
	}
	return &screenControls
}

// plain returns the length of the longest prefix of p that is nothing but
// text: printable ASCII, harmless controls and whole, valid UTF-8 characters.
func plain(p []byte, controls *byteSet) int {
	i := 0
	for i < len(p) {
		switch b := p[i]; {
		case b >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(p[i:])
			if n == 1 || isC1(r) {
				return i
			}
			i += n
		case b >= 0x20 || controls[b]:
			i++
		default:
			return i
		}
	}
	return i
}

// isC1 reports whether r is one of the 8-bit controls, which xterm and VTE
// execute when they come encoded in UTF-8.
func isC1(r rune) bool { return 0x80 <= r && r <= 0x9f }

// partial is the beginning of a UTF-8 character whose end has not come.
type partial struct {
	b [utf8.UTFMax]byte
	n int
}

func (p *partial) add(b byte) {
	p.b[p.n] = b
	p.n++
}

// next takes off the front what can be told by now: a whole character, or one
// byte that belongs to none, for which r is noRune. It returns false while
// more bytes are needed; otherwise it is to be called again until it does.
func (p *partial) next() (r rune, raw byte, ok bool) {
	if p.n == 0 || !utf8.FullRune(p.b[:p.n]) {
		return 0, 0, false
	}
	r, n := utf8.DecodeRune(p.b[:p.n])
	if n == 1 {
		r, raw = noRune, p.b[0]
	}
	copy(p.b[:], p.b[n:p.n])
	p.n -= n
	return r, raw, true
}

const noRune = -1

// textByte handles a byte of 0x80 and above in text. Invalid bytes pass, as terminals show a
// replacement for them, but 0x80–0x9f pass only as part of a character: alone they are controls for
// some terminals. What follows a dropped control is left to be shown as text: only the introducer
// is dangerous, and terminals do not agree whether it is one.
func (f *Filter) textByte(b byte) {
	f.rune.add(b)
	for {
		r, raw, ok := f.rune.next()
		switch {
		case !ok:
			return
		case r == noRune && raw >= 0xa0:
			f.out = append(f.out, raw)
		case r != noRune && !isC1(r):
			f.out = utf8.AppendRune(f.out, r)
		}
	}
}

// breakRune ends a character that was cut off by something else.
func (f *Filter) breakRune() {
	for _, b := range f.rune.b[:f.rune.n] {
		if b >= 0xa0 {
			f.out = append(f.out, b)
		}
	}
	f.rune.n = 0
}

// Guard is where an untrusted log goes that one of our own files is to show: the file itself,
// or a filter before it if it is a terminal. finish is to be called at the end.
func Guard(to *os.File) (w io.Writer, finish func()) {
	if !IsTerminal(int(to.Fd())) {
		return to, func() {}
	}
	f := NewFilter(to, Options{Lines: true})
	return f, func() {
		f.Close()
		_, _ = to.Write(f.Undo())
	}
}

package terminal

// The states of the parser, which is the one of Paul Williams for DEC
// terminals (vt100.net/emu/dec_ansi_parser) with the places where today's
// terminals differ from it made strict.
type state uint8

const (
	ground   state = iota
	escape         // after ESC
	control        // after CSI, which is ESC [
	str            // within OSC, DCS, APC, PM or SOS
	strEsc         // within one, after an ESC that may begin its end
	image          // within an image that is being passed on
	imageEsc       // within one, after ESC
)

const (
	bel = 0x07
	so  = 0x0e
	si  = 0x0f
	can = 0x18
	sub = 0x1a
	esc = 0x1b
	del = 0x7f
	st  = "\x1b\\" // string terminator
)

const (
	// maxControl bounds CSI and ESC sequences. The longest in use are
	// colour settings of some 60 bytes.
	maxControl = 256
	// maxString bounds strings that are collected before they are judged.
	// Longer ones are dropped through their terminator.
	maxString = 64 << 10
)

// step moves the parser by one byte.
func (f *Filter) step(b byte) {
	switch f.state {
	case ground:
		f.stepGround(b)
	case escape:
		f.stepEscape(b)
	case control:
		f.stepControl(b)
	case str:
		f.stepString(b)
	case strEsc:
		if b == '\\' {
			f.endString(st)
			return
		}
		// Some terminals take this as the string's end, some as part of it.
		// The string is dropped and a new sequence begins.
		f.begin()
		f.stepEscape(b)
	case image:
		f.stepImage(b)
	case imageEsc:
		f.emit(st)
		f.begin()
		if b == '\\' {
			f.state = ground
			return
		}
		f.stepEscape(b)
	}
}

func (f *Filter) emit(s string) { f.out = append(f.out, s...) }

// begin starts a sequence at an ESC.
func (f *Filter) begin() {
	f.state, f.bad = escape, false
	f.seq = append(f.seq[:0], esc)
}

func (f *Filter) stepGround(b byte) {
	if b >= 0x80 {
		f.textByte(b)
		return
	}
	f.breakRune()
	if b == esc {
		f.begin()
		return
	}
	f.execute(b)
}

// execute passes a control character that acts by itself.
func (f *Filter) execute(b byte) {
	switch {
	case (b == so || b == si) && !f.opts.Lines:
		if f.left.shifted = b == so; f.aside {
			return
		}
	case b < 0x20 && !f.controls()[b]:
		return
	}
	f.out = append(f.out, b)
}

// interrupt handles what may come within an ESC or CSI sequence without being
// part of it, and reports whether b was that.
//
// Terminals execute a control character there and go on with the sequence;
// since the sequence acts only at its end, passing the character ahead of it
// has the same effect, and leaves nothing to disagree about.
func (f *Filter) interrupt(b byte) bool {
	switch {
	case b == esc:
		f.begin()
	case b == can, b == sub:
		f.state = ground
	case b < 0x20:
		f.execute(b)
	case b == del:
		// Ignored by DEC terminals.
	case b >= 0x80:
		// A control for some terminals, a character for others. The
		// sequence is dropped, the byte is treated as in text.
		f.state = ground
		f.stepGround(b)
	default:
		return false
	}
	return true
}

func (f *Filter) stepEscape(b byte) {
	if f.interrupt(b) {
		return
	}
	f.seq = append(f.seq, b)
	if b < 0x30 {
		// An intermediate. No sequence that passes has two of them.
		if len(f.seq) > 2 {
			f.seq, f.bad = f.seq[:2], true
		}
		return
	}
	if len(f.seq) == 2 {
		switch b {
		case '[':
			f.state = control
			return
		case ']', 'P', '_':
			f.openString(b)
			return
		case 'X', '^', 'k':
			// SOS and PM have no use. ESC k sets the title in tmux and
			// screen; elsewhere its text would be printed. Dropped whole.
			f.openString(b)
			f.bad = true
			return
		}
	}
	f.state = ground
	if !f.bad && !f.opts.Lines {
		f.judge(vetEscape(f.seq))
	}
}

func (f *Filter) stepControl(b byte) {
	if f.interrupt(b) {
		return
	}
	if len(f.seq) == maxControl {
		f.bad = true
	} else {
		f.seq = append(f.seq, b)
	}
	if b < 0x40 {
		return
	}
	f.state = ground
	if f.bad || !f.csi.parse(f.seq) || f.opts.Lines && f.csi.name() != "m" {
		return
	}
	if f.judge(f.csi.vet()) {
		f.left.control(&f.csi)
	}
}

// verdict is what becomes of a sequence.
type verdict uint8

const (
	drop verdict = iota
	pass
	ask // passes, and the terminal will send something because of it
)

// judge writes the collected sequence or does not, and says whether the program may count on it.
func (f *Filter) judge(v verdict) bool {
	if v == drop || v == ask && f.opts.Unheard {
		return false
	}
	switch {
	case f.again && !f.draws(v):
	case f.aside && (f.seq[1] != '[' || f.csi.name() != "m"):
	default:
		f.out = append(f.out, f.seq...)
	}
	f.asked = f.asked || v == ask
	if f.seq[1] != '[' {
		f.left.escape(f.seq)
	}
	return true
}

func (f *Filter) openString(kind byte) {
	f.state, f.kind = str, kind
	f.bad = f.bad || f.opts.Lines
	f.rune.n = 0
}

// stepString collects a string. Nothing of it has been written, so a wrong
// guess about where it ends costs some text but no safety.
func (f *Filter) stepString(b byte) {
	if b >= 0x80 {
		f.stringByte(b)
		return
	}
	if f.rune.n > 0 {
		f.rune.n, f.bad = 0, true // a character was cut off
	}
	switch b {
	case esc:
		f.state = strEsc
		return
	case can, sub:
		f.state = ground
		return
	case bel:
		if f.kind == ']' {
			f.endString("\a")
			return
		}
		// Ends any string in some terminals, only OSC in others.
		f.bad = true
	}
	f.collect(b)
	if !f.bad && f.startsImage(b) {
		if f.bad = f.again || f.aside; f.bad {
			return
		}
		f.beginImage()
	}
}

// stringByte collects a byte of 0x80 and above, watching for 8-bit controls.
func (f *Filter) stringByte(b byte) {
	f.collect(b)
	f.rune.add(b)
	for {
		r, raw, ok := f.rune.next()
		if !ok {
			return
		}
		if r != noRune && !isC1(r) {
			continue
		}
		f.bad = true
		// The 8-bit string terminator, raw or in UTF-8. Terminals that know it would go on in
		// ground state, and so does the filter, but the string is dropped as others do not.
		if r == 0x9c || raw == 0x9c {
			f.state, f.rune.n = ground, 0
			return
		}
	}
}

func (f *Filter) collect(b byte) {
	if len(f.seq) == maxString {
		f.bad = true
	}
	if f.bad {
		return
	}
	f.seq = append(f.seq, b)
}

// endString judges a string that has come to its terminator.
func (f *Filter) endString(terminator string) {
	f.state = ground
	if f.bad || f.rune.n > 0 {
		f.rune.n = 0
		return
	}
	v := drop
	switch f.kind {
	case ']':
		f.seq = stripTitle(f.seq)
		v = vetOSC(f.seq[2:], f.opts)
	case 'P':
		v = vetDCS(f.seq[2:])
	case '_':
		v = vetGraphics(f.seq[2:])
	}
	f.seq = append(f.seq, terminator...)
	f.judge(v)
}

// stepImage passes on an image. Anything that is not of its encoding ends it
// for the terminal, and drops the rest.
func (f *Filter) stepImage(b byte) {
	switch {
	case f.image[b]:
		f.out = append(f.out, b)
	case b == esc:
		f.state = imageEsc
	case b == bel && f.kind == ']':
		f.out = append(f.out, b)
		f.state = ground
	default:
		f.emit(st)
		f.openString(f.kind)
		f.bad = true
		f.stepString(b)
	}
}

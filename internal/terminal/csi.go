package terminal

import "sync"

// maxDigits bounds a number in a CSI sequence. Terminals clamp or wrap larger
// ones around, so that 4294967317 may be read as 21.
const maxDigits = 9

// controlSeq is a parsed CSI sequence.
type controlSeq struct {
	// key is what selects the function: the private marker if any, the
	// intermediates, and the final byte, as in "m", "?h", " q" or "?$p".
	key    [4]byte
	keyLen int
	params []int // an omitted parameter is 0
	colons bool  // some parameters are separated by colons
	given  bool  // there is at least one parameter byte
}

func (c *controlSeq) name() string { return string(c.key[:c.keyLen]) }

// param returns the parameter at i, 0 if it was omitted.
func (c *controlSeq) param(i int) int {
	if i < len(c.params) {
		return c.params[i]
	}
	return 0
}

// parse takes apart ESC [ … final. It accepts only the form all terminals read alike: at most one
// private marker, which comes first, then numbers, then at most two intermediates.
func (c *controlSeq) parse(seq []byte) bool {
	*c = controlSeq{params: c.params[:0]}
	body := seq[2:]
	if '<' <= body[0] && body[0] <= '?' {
		c.key[0], c.keyLen = body[0], 1
		body = body[1:]
	}
	n, digits := 0, 0
	for i, b := range body {
		switch {
		case '0' <= b && b <= '9':
			if digits++; digits > maxDigits {
				return false
			}
			n = n*10 + int(b-'0')
			c.given = true
		case b == ';' || b == ':':
			c.params = append(c.params, n)
			n, digits = 0, 0
			c.given = true
			c.colons = c.colons || b == ':'
		case b > '9' && b < 0x40:
			return false // a marker in the wrong place
		default:
			if c.given {
				c.params = append(c.params, n)
			}
			return c.setKey(body[i:])
		}
	}
	return false
}

// setKey takes the intermediates and the final byte.
func (c *controlSeq) setKey(rest []byte) bool {
	if c.keyLen+len(rest) > len(c.key) {
		return false
	}
	for i, b := range rest {
		if b >= 0x30 && i < len(rest)-1 {
			return false // a parameter after an intermediate
		}
		c.key[c.keyLen] = b
		c.keyLen++
	}
	return true
}

func (c *controlSeq) vet() verdict {
	if c.keyLen == 1 && c.key[0] == 'm' {
		return pass // half of all sequences are these
	}
	if c.colons {
		return drop // only colours have sub-parameters
	}
	rule, ok := controlRules()[c.name()]
	if !ok {
		return drop
	}
	return rule(c)
}

func always(*controlSeq) verdict { return pass }
func asks(*controlSeq) verdict   { return ask }

// when passes a sequence whose first parameter is one of the values.
func when(v verdict, values ...int) func(*controlSeq) verdict {
	return func(c *controlSeq) verdict {
		for _, n := range values {
			if c.param(0) == n && len(c.params) <= 1 {
				return v
			}
		}
		return drop
	}
}

// controlRules lists the CSI sequences that pass. Worth naming among those that do not:
//
//	i, ?i      media copy: prints, or sends the screen to the printer port
//	*y         DECRQCRA: checksums of screen areas, which spell out their text
//	*z         DECINVM: runs a macro
//	$w, $u, &u reports of presentation, terminal and character set state
//	+p         DECSR: sends back a number of the program's choice
//	"p         DECSCL: terminal level, and 8-bit controls in answers
//	>t, >T     how titles are set and reported
//	'z '{ '|   DEC locator, a mouse protocol nothing uses
//	]          Linux console settings: bell, blanking, switching consoles
//	[          Linux console: takes the next character with it
//	$| $} *|   page size and the status line
//	q, x, y    keyboard lights, DECREQTPARM, self-test
var controlRules = sync.OnceValue(func() map[string]func(*controlSeq) verdict {
	return map[string]func(*controlSeq) verdict{
		// Cursor movement, tabs, and the cursor's place saved and restored.
		"A": always, "B": always, "C": always, "D": always, "E": always,
		"F": always, "G": always, "H": always, "I": always, "Z": always,
		"`": always, "a": always, "d": always, "e": always, "f": always,
		"j": always, "k": always, "g": always, "s": always, "u": always,
		"?W": when(pass, 5), // tab stops every 8 columns
		// Erasing, inserting, deleting, scrolling, repeating; rectangles.
		"J": always, "K": always, "?J": always, "?K": always, "X": always,
		"@": always, "L": always, "M": always, "P": always, "S": always,
		"^": always, "b": always, "r": always, " @": always, " A": always,
		"'}": always, "'~": always, "$r": always, "$t": always, "$v": always,
		"$x": always, "$z": always, "${": always, "*x": always, "\"q": always,
		// T scrolls down, but with five parameters starts highlight tracking,
		// in which xterm hangs until the program answers.
		"T": func(c *controlSeq) verdict {
			if len(c.params) > 1 {
				return drop
			}
			return pass
		},
		// Colour stacks, cursor shape (?c on the Linux console), soft reset.
		"#{": always, "#}": always, "#p": always, "#q": always,
		"#P": always, "#Q": always, " q": always, "?c": always, "!p": always,
		// Modes: see modes.go.
		"h": ansiModes, "l": ansiModes,
		"?h": privateModes, "?l": privateModes,
		"?s": privateModes, "?r": privateModes,
		"$p": asks, "?$p": asks, // DECRQM: is this mode set
		// Who are you: DA1, DA2, DA3, XTVERSION. The answers are fixed.
		"c": when(ask, 0), ">c": when(ask, 0), "=c": when(ask, 0), ">q": when(ask, 0),
		// DSR: all well, cursor position; printer, keys, keyboard, locator,
		// session, and light or dark theme, all answered with numbers.
		"n":  when(ask, 5, 6),
		"?n": when(ask, 6, 15, 25, 26, 53, 55, 56, 75, 85, 996),
		// Keyboard: xterm's modifyOtherKeys and its queries, kitty's protocol.
		">m": keyResource, ">n": keyResource, ">f": keyResource,
		"?m": asks, "?f": asks, "?g": asks,
		">u": always, "<u": always, "=u": always, "?u": asks,
		// Does the pointer hide while typing; does shift reach the program.
		">p": when(pass, 0, 1, 2, 3), ">s": when(pass, 0, 1),
		"?S": asks, // XTSMGRAPHICS: size and colours for sixel images
		"t":  windowOps,
	}
})

// windowOps lets pass the window operations that ask for a size in pixels or
// characters (14 to 19) or save and restore the title (22, 23). The rest moves
// and resizes windows, or has the title, which the program can choose, typed
// back (20, 21).
func windowOps(c *controlSeq) verdict {
	switch c.param(0) {
	case 14, 15, 16, 18, 19:
		return ask
	case 22, 23:
		return pass
	}
	return drop
}

// keyResources is how many of xterm's modifyKeys resources there are.
const keyResources = 8

func keyResource(c *controlSeq) verdict {
	if c.param(0) >= keyResources {
		return drop
	}
	return pass
}

// vetEscape judges the sequences of ESC and one or two more bytes.
func vetEscape(seq []byte) verdict {
	if len(seq) == 2 {
		switch seq[1] {
		case '7', '8', // save and restore the cursor
			'6', '9', 'D', 'E', 'H', 'M', // move, scroll, set a tab stop
			'=', '>', // keypad
			'c': // full reset
			return pass
		case 'Z': // old form of DA1, answered with the same fixed text
			return ask
		}
		// Not here: single and locking shifts and memory lock, which leave
		// a mess and are not used; ST outside of a string, which is nothing.
		return drop
	}
	switch seq[1] {
	case '(', ')', '*', '+': // character sets: line drawing, UK, US
		switch seq[2] {
		case '0', 'A', 'B', '1', '2':
			return pass
		}
	case '#': // double size lines, screen alignment test
		switch seq[2] {
		case '3', '4', '5', '6', '8':
			return pass
		}
	case ' ': // answers in 7-bit form; G would be 8-bit
		if seq[2] == 'F' {
			return pass
		}
	case '%': // UTF-8; @ would leave it, and make text into controls
		if seq[2] == 'G' {
			return pass
		}
	}
	return drop
}

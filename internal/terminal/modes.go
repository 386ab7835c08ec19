package terminal

import "sync"

// ansiMode says whether a mode of CSI h and l passes: 4, insert, and 20, line feed is a
// new line. Not 2, which locks the keyboard, 3, which shows controls, or 12, local echo.
func ansiMode(n int) bool { return n == 4 || n == 20 }

// privateModeRules lists the modes of CSI ? h, l, s and r. Those with ask
// make the terminal send events. Worth naming among those that do not pass:
//
//	2          VT52: another language, in which this filter cannot read
//	38         Tektronix: likewise
//	18, 19     what is printed
//	46         log to a file
//	67         what Backspace sends
//	1001       highlight tracking, in which xterm hangs
//	1040–1044  clipboard and window raising
//	1046       forbids the alternate screen
//	1050–1061  function key types
//	5522       clipboard as paste events
//	9001       keys as Windows records
var privateModeRules = sync.OnceValue(func() map[int]verdict {
	return map[int]verdict{
		1: pass, 66: pass, // cursor keys and keypad send application codes
		3: pass, 40: pass, 95: pass, // 132 columns, if the terminal allows it
		4: pass, 5: pass, 6: pass, 7: pass, 8: pass, // smooth scroll, reverse, origin, wrap, repeat
		12: pass, 13: pass, 14: pass, 25: pass, // cursor blinking, shown
		41: pass, 45: pass, 1045: pass, // reverse wrap and its corrections
		69: pass,                                 // left and right margins
		9:  ask, 1000: ask, 1002: ask, 1003: ask, // mouse
		1005: pass, 1006: pass, 1015: pass, 1016: pass, // how the mouse is encoded
		1004: ask,              // focus
		1007: pass,             // wheel as cursor keys
		1010: pass, 1011: pass, // scroll to the bottom on output, on key
		1034: pass, 1035: pass, 1036: pass, 1039: pass, // Meta and Alt keys
		47: pass, 1047: pass, 1048: pass, 1049: pass, // alternate screen
		80: pass, 1070: pass, 8452: pass, // sixel scrolling, colours, cursor
		2004: pass, // bracketed paste
		2026: pass, // synchronized output
		2027: pass, // grapheme clusters
		2031: ask,  // tell when the theme changes
		2048: ask,  // tell when the window is resized
	}
})

func ansiModes(c *controlSeq) verdict {
	for _, mode := range c.params {
		if !ansiMode(mode) {
			return drop
		}
	}
	return pass
}

// privateModes drops the whole sequence if one of its modes may not pass.
func privateModes(c *controlSeq) verdict {
	final := c.key[1]
	saves := final == 's' || final == 'r'
	v := pass
	for _, mode := range c.params {
		rule := privateModeRules()[mode]
		// Whether the alternate screen is shown must not depend on what
		// some terminals save and others do not: Undo has to know.
		if rule == drop || saves && isAltScreen(mode) {
			return drop
		}
		if rule == ask && final != 'l' {
			v = ask
		}
	}
	return v
}

func isAltScreen(mode int) bool { return mode == 47 || mode == 1047 || mode == 1049 }

// undoable are the private modes whose state would disturb the user's shell,
// with the state that is put back.
var undoable = []struct {
	mode int
	back bool
}{
	{2026, false}, // first, or what follows may not be shown
	{9, false}, {1000, false}, {1002, false}, {1003, false},
	{1005, false}, {1006, false}, {1015, false}, {1016, false},
	{1004, false}, {2031, false}, {2048, false}, {2004, false},
	{1, false}, {66, false}, {8, true},
	{5, false}, {6, false}, {7, true}, {45, false}, {69, false},
}

func undoState(mode int) (back, ok bool) {
	if mode == 25 {
		return true, true // undone last, so not in the list
	}
	for _, u := range undoable {
		if u.mode == mode {
			return u.back, true
		}
	}
	return false, false
}

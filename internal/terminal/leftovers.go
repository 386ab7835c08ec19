package terminal

import (
	"bytes"
	"fmt"
)

// leftovers is what a program has changed about the terminal and not put back.
// It sees only sequences that passed.
type leftovers struct {
	modes     map[int]bool      // undoable private modes that are not as they were
	ever      map[int]bool      // those that were so at any time
	alt       int               // the mode that entered the alternate screen, or 0
	keyboards [2]keyboard       // kitty keeps one per screen
	resources [keyResources]int // what xterm's modifyKeys resources are set to
	insert    bool
	newLine   bool
	keypad    bool
	region    bool // the screen scrolls only in part
	shape     bool // of the cursor
	coloured  bool // text attributes
	charset   bool // G0 is not ASCII
	shifted   bool // G1 is in use
	link      bool
	progress  bool
	pointer   bool
	palette   bool
	special   bool
	dynamic   [10]bool // OSC 10 to 19
}

// keyboard is the state of the kitty keyboard protocol.
type keyboard struct {
	depth int   // entries pushed and not popped
	flags int   // set without a push
	stack []int // the flags of the last entries
}

// maxStack is how many entries are remembered. Terminals keep no more.
const maxStack = 8

// control notes a CSI sequence.
func (l *leftovers) control(c *controlSeq) {
	first := c.param(0)
	if c.keyLen == 1 && c.key[0] == 'm' { // the common case, made fast
		l.coloured = first != 0 || len(c.params) > 1
		return
	}
	switch c.name() {
	case "?h", "?l":
		for _, mode := range c.params {
			l.private(mode, c.key[1] == 'h')
		}
	case "?r":
		l.restore(c.params)
	case "h", "l":
		for _, mode := range c.params {
			switch mode {
			case 4:
				l.insert = c.key[0] == 'h'
			case 20:
				l.newLine = c.key[0] == 'h'
			}
		}
	case "r":
		l.region = c.given
	case " q":
		l.shape = first != 0
	case ">m":
		if !c.given {
			l.resources = [keyResources]int{}
		} else {
			l.resources[first] = c.param(1)
		}
	case "<u", ">u", "=u":
		l.keyboard().control(c)
	}
}

func (l *leftovers) private(mode int, on bool) {
	if isAltScreen(mode) {
		l.alt = 0
		if on {
			l.alt = mode
		}
		return
	}
	back, ok := undoState(mode)
	if !ok {
		return
	}
	if on == back {
		delete(l.modes, mode)
		return
	}
	if l.modes == nil {
		l.modes, l.ever = map[int]bool{}, map[int]bool{}
	}
	l.modes[mode], l.ever[mode] = true, true
}

// restore notes that modes were restored to what they were when saved. Not all terminals do this,
// so any that was ever changed may now be changed; undoing one too many does no harm.
func (l *leftovers) restore(modes []int) {
	for mode := range l.ever {
		if len(modes) == 0 {
			l.modes[mode] = true
		}
	}
	for _, mode := range modes {
		if l.ever[mode] {
			l.modes[mode] = true
		}
	}
}

func (l *leftovers) keyboard() *keyboard {
	if l.alt != 0 {
		return &l.keyboards[1]
	}
	return &l.keyboards[0]
}

func (k *keyboard) control(c *controlSeq) {
	switch c.key[0] {
	case '>':
		k.depth = min(k.depth+1, 999)
		k.stack = append(k.stack[max(0, len(k.stack)-maxStack+1):], c.param(0))
	case '<':
		n := max(c.param(0), 1)
		k.depth = max(k.depth-n, 0)
		k.stack = k.stack[:max(0, len(k.stack)-n)]
	case '=':
		set(k.top(), c.param(0), c.param(1))
	}
}

// top is where the flags are that count.
func (k *keyboard) top() *int {
	if n := len(k.stack); n > 0 {
		return &k.stack[n-1]
	}
	return &k.flags
}

// set sets flags, adds some or takes some away.
func set(flags *int, to, how int) {
	switch how {
	case 0, 1:
		*flags = to
	case 2:
		*flags |= to
	case 3:
		*flags &^= to
	}
}

// escape notes any other sequence.
func (l *leftovers) escape(seq []byte) {
	switch seq[1] {
	case 'c':
		*l = leftovers{}
	case '=', '>':
		l.keypad = seq[1] == '='
	case '(':
		l.charset = seq[2] != 'B'
	case ']':
		body := bytes.TrimSuffix(bytes.TrimSuffix(seq[2:], []byte(st)), []byte{bel})
		if number, arg, ok := splitOSC(body); ok {
			l.command(number, arg)
		}
	}
}

func (l *leftovers) command(number int, arg []byte) {
	switch number {
	case 4:
		l.palette = l.palette || setsColour(arg)
	case 5:
		l.special = l.special || setsColour(arg)
	case 8:
		_, uri, _ := bytes.Cut(arg, []byte(";"))
		l.link = len(uri) > 0
	case 9:
		if bytes.HasPrefix(arg, []byte("4;")) {
			l.progress = !bytes.HasPrefix(arg, []byte("4;0"))
		}
	case 10, 11, 12, 13, 14, 15, 16, 17, 18, 19:
		// Further colours go to the numbers that follow.
		for i, colour := range bytes.Split(arg, []byte(";")) {
			if n := number - 10 + i; !isQuery(colour) && n < len(l.dynamic) {
				l.dynamic[n] = true
			}
		}
	case 22:
		l.pointer = len(arg) > 0
	case 104:
		l.palette = l.palette && len(arg) > 0
	case 105:
		l.special = l.special && len(arg) > 0
	case 110, 111, 112, 113, 114, 115, 116, 117, 118, 119:
		l.dynamic[number-110] = false
	}
}

// setsColour reports whether one of the pairs of index and colour is not a query.
func setsColour(arg []byte) bool {
	for i, field := range bytes.Split(arg, []byte(";")) {
		if i%2 == 1 && !isQuery(field) {
			return true
		}
	}
	return false
}

// undo returns the sequences that put everything back. The order matters:
// what belongs to the alternate screen comes before leaving it.
func (l *leftovers) undo() []byte {
	var b bytes.Buffer
	add := func(when bool, format string, args ...any) {
		if when {
			fmt.Fprintf(&b, format, args...)
		}
	}
	for _, u := range undoable {
		final := 'l'
		if u.back {
			final = 'h'
		}
		add(l.modes[u.mode], "\x1b[?%d%c", u.mode, final)
	}
	l.undoDrawing(add)
	if l.alt != 0 {
		l.keyboards[1].undo(add)
		add(true, "\x1b[?%dl", l.alt)
	}
	l.keyboards[0].undo(add)
	for i, set := range l.resources {
		add(set != 0, "\x1b[>%dm", i)
	}
	add(l.keypad, "\x1b>")
	l.undoCommands(add)
	add(l.coloured, "\x1b[m")
	add(l.modes[25], "\x1b[?25h")
	return b.Bytes()
}

func (l *leftovers) undoDrawing(add func(bool, string, ...any)) {
	// Resetting the region moves the cursor home.
	add(l.region, "\x1b7\x1b[r\x1b8")
	add(l.insert, "\x1b[4l")
	add(l.newLine, "\x1b[20l")
	add(l.charset, "\x1b(B")
	add(l.shifted, "\x0f")
	add(l.shape, "\x1b[0 q")
}

func (l *leftovers) undoCommands(add func(bool, string, ...any)) {
	add(l.link, "\x1b]8;;"+st)
	add(l.progress, "\x1b]9;4;0"+st)
	add(l.pointer, "\x1b]22;"+st)
	add(l.palette, "\x1b]104"+st)
	add(l.special, "\x1b]105"+st)
	for i, set := range l.dynamic {
		add(set, "\x1b]%d"+st, 110+i)
	}
}

func (k *keyboard) undo(add func(bool, string, ...any)) {
	add(k.depth > 0, "\x1b[<%du", k.depth)
	add(k.flags != 0, "\x1b[=0u")
}

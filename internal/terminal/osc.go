package terminal

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
)

// oscRules lists the operating system commands that pass, by number; arg is what follows "number;",
// nil if nothing does. What is not listed is dropped. Worth naming among those:
//
//	3          sets X properties of the window
//	6          per-tab document, in Apple's Terminal; special colours in xterm
//	7          working directory: the path is one in the sandbox, and the
//	           user's next tab would open in a place the program chose
//	20, 46,    urxvt and rxvt: background from a file, log file, locale,
//	701–776    and queries that answer with text
//	50         font operations and query; profile settings in Konsole
//	51         commands to the Emacs or Vim the terminal runs in
//	60, 61     what xterm allows
//	83         commands to GNU screen
//	633        VS Code's command history, which the user runs again from
//	697        Fig
//	5113       kitty file transfer
var oscRules = sync.OnceValue(func() map[int]func(arg []byte, opts Options) verdict {
	return map[int]func(arg []byte, opts Options) verdict{
		// Titles. They cannot be read back: CSI 20 t and 21 t do not pass.
		0: text, 1: text, 2: text,
		// Palette and special colours: set or ask. The answer is a colour.
		4: paletteColours, 5: paletteColours,
		// Hyperlinks: do nothing until the user clicks one.
		8: hyperlink,
		// A notification, or ConEmu's progress bar; see notify.
		9: notify,
		// Text, background, cursor and selection colour: set or ask.
		10: colours, 11: colours, 12: colours, 13: colours, 14: colours,
		15: colours, 16: colours, 17: colours, 18: colours, 19: colours,
		// Pointer shape, without its query, which answers with names.
		22: pointerShape,
		// Clipboard: write only, and only if allowed.
		52: clipboard,
		// Text in another size (kitty). It is only text.
		66: text,
		// Notification with a title (kitty), as far as nothing is sent back.
		99: kittyNotify,
		// Colours as they were.
		104: numbers, 105: numbers,
		110: nothing, 111: nothing, 112: nothing, 113: nothing, 114: nothing,
		115: nothing, 116: nothing, 117: nothing, 118: nothing, 119: nothing,
		// kitty's colour stack.
		30001: nothing, 30101: nothing,
		// Where a prompt, a command, its output begin: for jumping between them.
		133: promptMark,
		// Notification (urxvt, foot, ghostty); urxvt has nothing else there.
		777: urxvtNotify,
		// iTerm2: see strings.go, where images are.
		1337: iterm,
	}
})

// splitOSC returns the number of a command and what follows. Numbers have one
// spelling: terminals disagree about leading zeros and empty ones.
func splitOSC(payload []byte) (number int, arg []byte, ok bool) {
	digits, arg, found := bytes.Cut(payload, []byte(";"))
	if !found {
		arg = nil
	}
	if !digitsOnly.holds(digits) || len(digits) == 0 || len(digits) > 5 ||
		digits[0] == '0' && len(digits) > 1 {
		return 0, nil, false
	}
	number, err := strconv.Atoi(string(digits))
	return number, arg, err == nil
}

func vetOSC(payload []byte, opts Options) verdict {
	number, arg, ok := splitOSC(payload)
	if !ok || hasControls(payload) {
		return drop
	}
	rule, ok := oscRules()[number]
	if !ok {
		return drop
	}
	return rule(arg, opts)
}

// stripTitle removes control characters from a title, which may hold the name
// of a file. In other commands they are reason to drop them.
func stripTitle(seq []byte) []byte {
	number, _, ok := splitOSC(seq[2:])
	if !ok || number > 2 {
		return seq
	}
	title := seq[:2]
	for _, b := range seq[2:] {
		if b >= 0x20 && b != del {
			title = append(title, b)
		}
	}
	return title
}

func hasControls(s []byte) bool {
	for _, b := range s {
		if b < 0x20 || b == del {
			return true
		}
	}
	return false
}

func text(arg []byte, _ Options) verdict    { return passIf(arg != nil) }
func nothing(arg []byte, _ Options) verdict { return passIf(len(arg) == 0) }
func numbers(arg []byte, _ Options) verdict { return passIf(numberList.holds(arg)) }

func passIf(ok bool) verdict {
	if ok {
		return pass
	}
	return drop
}

// isColour accepts the forms of XParseColor: a name, #rgb, rgb:r/g/b and its relatives. The old
// rxvt has menu commands under the same number, which begin with brackets or a slash.
func isColour(s []byte) bool {
	if len(s) == 0 || len(s) > 64 || !letters[s[0]] && s[0] != '#' {
		return false
	}
	return colourBytes.holds(s)
}

func isQuery(s []byte) bool { return len(s) == 1 && s[0] == '?' }

func colours(arg []byte, _ Options) verdict {
	if arg == nil {
		return drop
	}
	v := pass
	for field := range bytes.SplitSeq(arg, []byte(";")) {
		switch {
		case isQuery(field):
			v = ask
		case !isColour(field):
			return drop
		}
	}
	return v
}

func paletteColours(arg []byte, _ Options) verdict {
	fields := bytes.Split(arg, []byte(";"))
	if len(fields)%2 != 0 {
		return drop
	}
	v := pass
	for i := 0; i < len(fields); i += 2 {
		index, colour := fields[i], fields[i+1]
		if len(index) == 0 || len(index) > 3 || !digitsOnly.holds(index) {
			return drop
		}
		switch {
		case isQuery(colour):
			v = ask
		case !isColour(colour):
			return drop
		}
	}
	return v
}

func hyperlink(arg []byte, _ Options) verdict {
	_, target, ok := bytes.Cut(arg, []byte(";"))
	if !ok || len(target) == 0 {
		return passIf(ok) // the end of a link
	}
	for _, scheme := range linkSchemes {
		if len(target) >= len(scheme) && strings.EqualFold(string(target[:len(scheme)]), scheme) {
			return pass
		}
	}
	return drop
}

// linkSchemes are what a link may lead to. A click on another one would start a
// program of the host with an argument that the sandbox chose: file, vscode, ssh, …
var linkSchemes = []string{"https://", "http://", "mailto:"}

// notify takes apart two uses of OSC 9. ConEmu has commands there, which wait,
// run macros and start programs, all of them beginning with a digit; of these
// only the progress bar (4) passes. Other text is a notification.
func notify(arg []byte, _ Options) verdict {
	if len(arg) == 0 {
		return drop
	}
	if !digitsOnly[arg[0]] {
		return pass
	}
	progress, ok := bytes.CutPrefix(arg, []byte("4;"))
	return passIf(ok && numberList.holds(progress))
}

func urxvtNotify(arg []byte, _ Options) verdict {
	return passIf(bytes.HasPrefix(arg, []byte("notify;")))
}

func pointerShape(arg []byte, _ Options) verdict {
	return passIf(arg != nil && shapeBytes.holds(arg))
}

// promptMark passes the marks of FinalTerm. Not their options by which a click
// sends keys (click_events) or the command line is recorded (cmdline).
func promptMark(arg []byte, _ Options) verdict {
	first := true
	for field := range bytes.SplitSeq(arg, []byte(";")) {
		if first {
			if len(field) != 1 || !promptLetters[field[0]] {
				return drop
			}
			first = false
			continue
		}
		key, value, found := bytes.Cut(field, []byte("="))
		if !found {
			value, key = field, nil
		}
		switch string(key) {
		case "", "aid", "k", "err", "redraw":
		default:
			return drop
		}
		if !wordBytes.holds(value) {
			return drop
		}
	}
	return pass
}

// kittyNotify passes a notification that sends nothing back: no report when
// it is clicked (a=report) or closed (c=1), which could come hours later, and
// no queries (p=? and p=alive). All of these repeat an id the program chose.
func kittyNotify(arg []byte, _ Options) verdict {
	meta, _, found := bytes.Cut(arg, []byte(";"))
	if !found {
		return drop
	}
	if len(meta) == 0 {
		return pass
	}
	for field := range bytes.SplitSeq(meta, []byte(":")) {
		key, value, _ := bytes.Cut(field, []byte("="))
		ok := false
		switch string(key) {
		case "i", "d", "e", "o", "u", "w", "f", "t", "n", "g", "s":
			ok = true
		case "p":
			switch string(value) {
			case "title", "body", "icon", "close":
				ok = true
			}
		case "a":
			ok = string(value) == "focus" || string(value) == "-focus"
		}
		if !ok {
			return drop
		}
	}
	return pass
}

// clipboard passes a write of whole base64. A question mark would read it, and
// what is neither clears it in some terminals.
func clipboard(arg []byte, opts Options) verdict {
	target, data, found := bytes.Cut(arg, []byte(";"))
	return passIf(opts.ClipboardWrite && found &&
		clipboardTargets.holds(target) && base64Bytes.holds(data))
}

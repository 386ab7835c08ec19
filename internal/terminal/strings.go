package terminal

import "bytes"

// A byteSet is a set of bytes.
type byteSet [256]bool

func setOf(members string) (s byteSet) {
	for i := range len(members) {
		s[members[i]] = true
	}
	return s
}

// span returns how many bytes at the start of p are in the set.
func (s *byteSet) span(p []byte) int {
	for i, b := range p {
		if !s[b] {
			return i
		}
	}
	return len(p)
}

// holds reports whether all of p is in the set.
func (s *byteSet) holds(p []byte) bool { return s.span(p) == len(p) }

const (
	digitChars  = "0123456789"
	letterChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

var (
	digitsOnly       = setOf(digitChars)
	letters          = setOf(letterChars)
	numberList       = setOf(digitChars + ";")
	hexList          = setOf(digitChars + "abcdefABCDEF;")
	wordBytes        = setOf(digitChars + letterChars + "_-")
	base64Bytes      = setOf(digitChars + letterChars + "+/=")
	colourBytes      = setOf(digitChars + letterChars + "#:/.,%()+- ")
	shapeBytes       = setOf(digitChars + letterChars + "_-,<>=")
	fileBytes        = setOf(digitChars + letterChars + "+/=_-.%")
	promptLetters    = setOf("ABCDILNP")
	clipboardTargets = setOf("cpqs01234567")

	// What images consist of while they are streamed. Line ends are common
	// in their encoded form, and do no more than a line end if executed.
	sixelBytes   = printable("\r\n")
	fileContent  = setOf(digitChars + letterChars + "+/=\r\n")
	graphicBytes = base64Bytes
)

func printable(and string) byteSet {
	s := setOf(and)
	for b := byte(0x20); b < del; b++ {
		s[b] = true
	}
	return s
}

// maxImageHeader bounds what comes before the data of an image.
const maxImageHeader = 4 << 10

// startsImage reports whether b, just collected, ends the header of an image.
func (f *Filter) startsImage(b byte) bool {
	payload := f.seq[2:]
	if len(payload) > maxImageHeader {
		return false
	}
	switch {
	case f.kind == 'P' && b == 'q':
		return numberList.holds(payload[:len(payload)-1])
	case f.kind == ']' && b == ':':
		return bytes.HasPrefix(payload, []byte("1337;File="))
	case f.kind == '_' && b == ';':
		return payload[0] == 'G'
	}
	return false
}

// beginImage judges the header of an image, and if it passes, what follows is
// passed on as it comes: images are too long to be collected.
func (f *Filter) beginImage() {
	v := pass
	payload := f.seq[2:]
	switch f.kind {
	case 'P':
		f.image = &sixelBytes
	case ']':
		f.image = &fileContent
		header := bytes.TrimPrefix(payload[:len(payload)-1], []byte("1337;File="))
		v = passIf(isInlineFile(header))
	case '_':
		f.image = &graphicBytes
		v = vetGraphics(payload[:len(payload)-1])
	}
	if !f.judge(v) {
		f.bad = true
		return
	}
	f.state = image
}

// vetDCS judges a device control string that is not a sixel image. Not on the list: DECRQSS ($q),
// whose answer repeats what was asked in some terminals; DECUDK, which puts text on function keys;
// macros, fonts; "tmux;" and GNU screen's bare DCS, which pass anything to the terminal outside;
// and kitty's remote control (@kitty-cmd).
func vetDCS(payload []byte) verdict {
	switch string(payload) {
	case "=1s", "=2s": // synchronized output, older form
		return pass
	}
	// XTGETTCAP: what is this terminfo entry. Hex digits are all that terminals repeat.
	names, ok := bytes.CutPrefix(payload, []byte("+q"))
	if !ok || len(names) == 0 || !hexList.holds(names) {
		return drop
	}
	return ask
}

// vetGraphics judges the control data of a kitty graphics command, G and
// pairs of a letter and a value. The data must come in the command itself:
// other ways (t) have the terminal read, and delete, files and shared memory.
func vetGraphics(payload []byte) verdict {
	control, ok := bytes.CutPrefix(payload, []byte("G"))
	if !ok {
		return drop
	}
	if len(control) == 0 {
		return ask
	}
	v := ask
	var seen byteSet
	for pair := range bytes.SplitSeq(control, []byte(",")) {
		if len(pair) < 3 || !letters[pair[0]] || pair[1] != '=' || seen[pair[0]] {
			return drop
		}
		key, value := pair[0], pair[2:]
		seen[key] = true
		switch {
		case !wordBytes.holds(value):
			return drop
		case key == 't' && string(value) != "d":
			return drop
		case key == 'q' && string(value) == "2":
			v = pass // asks for no answer
		}
	}
	return v
}

// iterm judges iTerm2's commands other than File, which is streamed. Not on the list:
// ReportVariable and RequestUpload, which send things back, Copy, CurrentDir, SetProfile,
// SetUserVar (which starts handlers in WezTerm), OpenURL, Custom, RequestAttention and many more.
func iterm(arg []byte, _ Options) verdict {
	name, value, _ := bytes.Cut(arg, []byte("="))
	switch string(name) {
	case "SetMark", "FileEnd":
		return passIf(len(name) == len(arg))
	case "ReportCellSize", "Capabilities": // answered with numbers and letters
		if len(name) == len(arg) {
			return ask
		}
	case "CursorShape":
		return passIf(len(value) == 1 && digitsOnly.holds(value))
	case "MultipartFile": // an image in parts, as tmux needs it
		return passIf(isInlineFile(value))
	case "FilePart":
		return passIf(base64Bytes.holds(value))
	}
	return drop
}

// isInlineFile reports whether the header of a file says that it is to be
// shown. One without inline=1 is saved to the user's downloads.
func isInlineFile(header []byte) bool {
	inline := false
	seen := map[string]bool{}
	for field := range bytes.SplitSeq(header, []byte(";")) {
		key, value, _ := bytes.Cut(field, []byte("="))
		name := string(key)
		if seen[name] || !fileBytes.holds(value) {
			return false
		}
		seen[name] = true
		switch name {
		case "inline":
			if string(value) != "1" {
				return false
			}
			inline = true
		case "name", "size", "width", "height", "preserveAspectRatio":
		default:
			return false
		}
	}
	return inline
}

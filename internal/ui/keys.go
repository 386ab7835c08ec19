package ui

import "unicode/utf8"

// names of control characters and sequences.
var names = map[string]string{
	"\r": "enter", "\n": "enter",
	"\x03": "interrupt",
	"\x04": "cancel", "\x07": "cancel", "\x1b": "cancel",
	"\x7f": "erase", "\x08": "erase", "\x15": "erase all", "\x17": "erase all",
	"\x10": "up", "\x0b": "up", "\x1b[A": "up", "\x1bOA": "up", "\x1b[Z": "up",
	"\x0e": "down", "\x09": "down", "\x1b[B": "down", "\x1bOB": "down",
	"\x1b[5~": "page up", "\x1b[6~": "page down",
}

// unknown is a key that means nothing here.
const unknown = "unknown key"

// next takes the first key off what was read. Without a key, more has to be read; with
// last, nothing more will come soon.
func next(in []byte, last bool) (key string, rest []byte) {
	if len(in) == 0 {
		return "", in
	}
	n := 1
	switch {
	case in[0] == 0x1b && len(in) == 1 && !last:
		return "", in
	case in[0] == 0x1b && len(in) > 1 && (in[1] == '[' || in[1] == 'O'):
		n = 2
		for n < len(in) && (in[n] < 0x40 || in[n] > 0x7e) && n < 32 {
			n++
		}
		if n == len(in) {
			if !last {
				return "", in
			}
			return unknown, nil
		}
		n++
	case in[0] >= utf8.RuneSelf:
		if !utf8.FullRune(in) && !last {
			return "", in
		}
		_, n = utf8.DecodeRune(in)
	}
	text := string(in[:n])
	if name := names[text]; name != "" {
		return name, in[n:]
	}
	if text[0] < 0x20 || text[0] == 0x1b || !utf8.ValidString(text) {
		return unknown, in[n:]
	}
	return text, in[n:]
}

package ui

import "unicode/utf8"

// named is the name of a control character or sequence, "" for others.
func named(key string) string {
	switch key {
	case "\r", "\n":
		return "enter"
	case "\x03":
		return "interrupt"
	case "\x04", "\x07", "\x1b":
		return "cancel"
	case "\x7f", "\x08":
		return "erase"
	case "\x15", "\x17":
		return "erase all"
	case "\x10", "\x0b", "\x1b[A", "\x1bOA", "\x1b[Z":
		return "up"
	case "\x0e", "\x09", "\x1b[B", "\x1bOB":
		return "down"
	case "\x1b[5~":
		return "page up"
	case "\x1b[6~":
		return "page down"
	case "\x1b[H", "\x1bOH", "\x1b[1~":
		return "home"
	case "\x1b[F", "\x1bOF", "\x1b[4~":
		return "end"
	}
	return ""
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
	if name := named(text); name != "" {
		return name, in[n:]
	}
	if text[0] < 0x20 || text[0] == 0x1b || !utf8.ValidString(text) {
		return unknown, in[n:]
	}
	return text, in[n:]
}

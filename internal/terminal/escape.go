package terminal

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Escape returns s as it can be shown within one line of our own output, be it a file name, a host
// or an error from inside the sandbox. What is not visible as itself is spelled out: control
// characters and invalid bytes as \x1b, other characters as \u202e or \U000e0001. These include
// bidirectional controls, which reorder what is around them, and spaces other than the common one.
// A backslash is doubled, so that the result says exactly what s was.
func Escape(s string) string { return spell(s, isVisible) }

// Plain is Escape for words of a stranger that the user decides about: everything that
// is not ASCII is spelled out, as many letters look like others.
func Plain(s string) string { return spell(s, func(r rune) bool { return r < del }) }

// Content is Escape for a line of a file, which is shown to be read as it is: tabs and
// single backslashes stay.
func Content(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r != '\t' && (r < 0x20 || r >= del) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		_, n := utf8.DecodeRuneInString(s)
		if s[0] == '\t' || s[0] == '\\' {
			b.WriteByte(s[0])
		} else {
			b.WriteString(Escape(s[:n]))
		}
		s = s[n:]
	}
	return b.String()
}

// JSON is Escape for JSON that is printed: what is not visible is spelled out as JSON does, so that a
// program reads the same from it. The text is an encoder's, which has escaped C0 controls.
func JSON(text []byte) []byte {
	if utf8.Valid(text) && !bytes.ContainsFunc(text, hidden) {
		return text
	}
	var out []byte
	for _, r := range string(text) {
		switch {
		case !hidden(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			a, b := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, a, b)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// hidden says whether a rune can stand in JSON and is not visible.
func hidden(r rune) bool { return r >= del && !isVisible(r) }

func spell(s string, shown func(rune) bool) string {
	if isClear(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1, r < 0x20, r == del:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\\':
			b.WriteString(`\\`)
		case shown(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		s = s[n:]
	}
	return b.String()
}

func isClear(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= del || s[i] == '\\' {
			return false
		}
	}
	return true
}

// isVisible reports whether r shows as something of its own. The fillers of
// Hangul, the blank Braille pattern and the selectors of variants count as letters,
// symbols and marks, but show nothing.
func isVisible(r rune) bool {
	switch r {
	case 0x115f, 0x1160, 0x3164, 0xffa0, 0x2800:
		return false
	}
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

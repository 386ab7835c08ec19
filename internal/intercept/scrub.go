package intercept

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A swapper puts texts in place of others of the same length: secrets in place of placeholders in
// requests, and placeholders in place of secrets in responses. It finds a text as it is, in base64
// at any alignment and in hexadecimal, and any of these with some or all of its characters escaped
// as in URLs (%41) or in JSON (\u0041, \/). What it puts there is encoded in the same way, so the
// length of a stream never changes. It does not find a part of a text, unless the stream ends there,
// nor what a server made of it in another way.
//
// It is made once and used by many streams. Where a text is not escaped it is searched for as by
// Wu and Manber: the last two bytes of a window as long as the shortest text say how far the window
// can move. Where it is, the search begins at its first escape.
type swapper struct {
	needles []needle
	cut     bool // what the end of a stream cuts off is swapped, too
	window  int  // bytes of each needle that the search looks at first
	longest int  // bytes that a needle can have in a stream
	shift   [1 << 16]uint8
	at      [256][]place  // where a byte is in needles
	first   [256][]needle // that begin with it
}

type needle struct{ from, to []byte }

type place struct {
	needle, offset int
	before         byte // the one before it, unless the offset is 0
}

// A pair is what shall be found, and what shall be there.
type pair struct{ from, to string }

const (
	maxEscape  = 6  // bytes, as in \u0041
	maxWindow  = 64 // a wider one is hardly faster
	minCutOff  = 8  // characters of a needle that a stream ends in, to be taken for it
	streamSize = 32 << 10
)

// newScrubber makes a swapper of secrets, in from, and their placeholders. Nothing shall be had by
// cutting a stream off.
func newScrubber(pairs []pair) (*swapper, error) {
	s, err := newSwapper(pairs)
	if err == nil {
		s.cut = true
	}
	return s, err
}

// newSwapper makes a swapper of placeholders, in from, and their secrets. A part of a placeholder
// is not swapped: nobody would find that part of the secret in the response.
func newSwapper(pairs []pair) (*swapper, error) {
	s := &swapper{window: maxWindow}
	for _, p := range pairs {
		if err := checkPair(p); err != nil {
			return nil, err
		}
		s.add(p.from, p.to)
		if plus := strings.NewReplacer(" ", "+"); strings.Contains(p.from, " ") {
			s.add(plus.Replace(p.from), plus.Replace(p.to)) // as in forms
		}
		s.add(hex.EncodeToString([]byte(p.from)), hex.EncodeToString([]byte(p.to)))
		s.add(fmt.Sprintf("%X", p.from), fmt.Sprintf("%X", p.to))
		for before := range 3 {
			s.add(core(base64.RawStdEncoding, p.from, before), core(base64.RawStdEncoding, p.to, before))
			s.add(core(base64.RawURLEncoding, p.from, before), core(base64.RawURLEncoding, p.to, before))
		}
	}
	for i := range s.shift {
		s.shift[i] = uint8(s.window - 1)
	}
	for i, n := range s.needles {
		for j := range s.window - 1 {
			block := &s.shift[block(n.from[j:])]
			*block = min(*block, uint8(s.window-2-j))
		}
		s.first[n.from[0]] = append(s.first[n.from[0]], n)
		for k, c := range n.from {
			s.at[c] = append(s.at[c], place{i, k, n.from[max(k-1, 0)]})
		}
	}
	return s, nil
}

func checkPair(p pair) error {
	n := len(p.from)
	same := n == len(p.to) && n > minRandom && p.from[0] == p.to[0] && p.from[n-1] == p.to[n-1]
	for i := range n {
		same = same && (p.from[i] == p.to[i] || isAlnum(p.from[i]) && isAlnum(p.to[i]))
	}
	if !same {
		return errors.New("a secret and its placeholder have different shapes")
	}
	if err := checkValue(p.from); err != nil {
		return err
	}
	return checkValue(p.to)
}

// core is what base64 makes of a text with some bytes before it, without the characters that say
// something of its neighbours.
func core(e *base64.Encoding, text string, before int) string {
	out := e.EncodeToString(append(make([]byte, before), text...))
	return out[(8*before+5)/6 : 8*(before+len(text))/6]
}

// add adds a needle, unless it is there.
func (s *swapper) add(from, to string) {
	n := needle{[]byte(from), []byte(to)}
	if slices.ContainsFunc(s.needles, func(m needle) bool { return bytes.Equal(m.from, n.from) }) {
		return
	}
	s.needles = append(s.needles, n)
	s.window = min(s.window, len(from))
	s.longest = max(s.longest, maxEscape*len(from))
}

func block(b []byte) uint16 { return uint16(b[0])<<8 | uint16(b[1]) }

// decodeUnit says which character of a needle a text begins with, and in how many bytes. They are
// none if the text begins with another escape, and less than that if it ends in the middle of one.
func decodeUnit(text []byte) (c byte, n int) {
	if len(text) == 0 {
		return 0, -1
	}
	var digits []byte
	switch text[0] {
	default:
		return text[0], 1
	case '%':
		if n = 3; len(text) < n {
			return 0, -1
		}
		digits = text[1:3]
	case '\\':
		if len(text) < 2 {
			return 0, -1
		}
		if c := text[1]; c != 'u' {
			if c <= ' ' || isAlnum(c) {
				return 0, 0
			}
			return c, 2
		}
		if n = 6; len(text) < n {
			return 0, -1
		}
		if text[2] != '0' || text[3] != '0' {
			return 0, 0
		}
		digits = text[4:6]
	}
	high, low := unhex(digits[0]), unhex(digits[1])
	if high > 15 || low > 15 {
		return 0, 0
	}
	return high<<4 | low, n
}

func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 255
}

// match says how many bytes of a text are a needle, 0 for none. It is less if the text ends before
// the needle, and units are the characters that were there.
func (n needle) match(text []byte) (length, units int) {
	for units, want := range n.from {
		c, size := decodeUnit(text[length:])
		switch {
		case size < 0:
			return -1, units
		case size == 0 || c != want:
			return 0, 0
		}
		length += size
	}
	return length, len(n.from)
}

// put writes what shall be there over the first units of a needle.
func (n needle) put(text []byte, units int) {
	const digits = "0123456789abcdef"
	for i, c := range n.to[:units] {
		_, size := decodeUnit(text)
		if c != n.from[i] {
			switch size {
			case 1:
				text[0] = c
			default:
				text[size-2], text[size-1] = digits[c>>4], digits[c&15]
			}
		}
		text = text[size:]
	}
}

// swap swaps all that it finds, from the left, and at one place the longest. It returns how many
// bytes are done: what follows may be the beginning of a needle, unless the text is the last.
func (s *swapper) swap(text []byte, last bool) (done int, swapped bool) {
	open := len(text)
	if !last {
		open = s.open(text, 0, 1)
	}
	plain, escaped := -1, -1
	for at := 0; ; {
		if plain < at {
			plain = s.plain(text, at)
		}
		if escaped < at {
			escaped = s.escaped(text, at)
		}
		next := min(plain, escaped)
		if next == len(text) || next >= open {
			break
		}
		best, length := -1, 0
		for i, n := range s.needles {
			if l, _ := n.match(text[next:]); l > length {
				best, length = i, l
			}
		}
		s.needles[best].put(text[next:], len(s.needles[best].from))
		swapped = true
		if at = next + length; open < at {
			open = s.open(text, at, 1)
		}
		done = at
	}
	if !last || !s.cut {
		return open, swapped
	}
	if at := s.open(text, done, minCutOff); at < len(text) {
		for _, n := range s.needles {
			if l, units := n.match(text[at:]); l < 0 && units >= minCutOff {
				n.put(text[at:], units)
				return len(text), true
			}
		}
	}
	return len(text), swapped
}

// open is the first place at which the text ends in a needle's first characters.
func (s *swapper) open(text []byte, from, units int) int {
	for at := max(from, len(text)-s.longest); at < len(text); at++ {
		c, size := decodeUnit(text[at:])
		if size < 0 && units <= 1 {
			return at
		}
		if size <= 0 {
			continue
		}
		for _, n := range s.first[c] {
			if l, had := n.match(text[at:]); l < 0 && had >= units {
				return at
			}
		}
	}
	return len(text)
}

// plain is the first place of a needle without escapes.
func (s *swapper) plain(text []byte, from int) int {
	for end := from + s.window; end <= len(text); {
		if shift := s.shift[block(text[end-2:])]; shift > 0 {
			end += int(shift)
			continue
		}
		at := end - s.window
		for _, n := range s.needles {
			if bytes.HasPrefix(text[at:], n.from) {
				return at
			}
		}
		end++
	}
	return len(text)
}

// escaped is the first place of a needle with escapes.
func (s *swapper) escaped(text []byte, from int) int {
	percent, backslash := -1, -1
	for at := from; ; at++ {
		if percent < at {
			percent = index(text, at, '%')
		}
		if backslash < at {
			backslash = index(text, at, '\\')
		}
		if at = min(percent, backslash); at == len(text) {
			return at
		}
		c, size := decodeUnit(text[at:])
		if size <= 0 {
			continue
		}
		first := len(text)
		for _, p := range s.at[c] {
			start, n := at-p.offset, &s.needles[p.needle]
			if start < from || start >= first || p.offset > 0 && text[at-1] != p.before || !bytes.Equal(text[start:at], n.from[:p.offset]) {
				continue
			}
			if l, _ := n.match(text[start:]); l > 0 {
				first = start
			}
		}
		if first < len(text) {
			return first
		}
	}
}

func index(text []byte, from int, c byte) int {
	if i := bytes.IndexByte(text[from:], c); i >= 0 {
		return from + i
	}
	return len(text)
}

// text swaps in a text that is all there is.
func (s *swapper) text(text string) (out string, swapped bool) {
	b := []byte(text)
	if _, swapped = s.swap(b, true); !swapped {
		return text, false
	}
	return string(b), true
}

// A swapReader swaps in a stream. It keeps back only what may be the beginning of a needle.
type swapReader struct {
	*swapper
	src     io.Reader
	swapped func() // is called when something was, unless it is nil
	buf     []byte
	// What lies before ready can be read, and what lies before end came from src.
	at, ready, end int
	err            error // of src
}

func (r *swapReader) Read(p []byte) (int, error) {
	for r.ready == r.at {
		if r.err != nil {
			return 0, r.err
		}
		if r.buf == nil {
			r.buf = make([]byte, streamSize+r.longest)
		}
		had := copy(r.buf, r.buf[r.at:r.end])
		var n int
		n, r.err = r.src.Read(r.buf[had:])
		r.end = had + n
		done, swapped := r.swap(r.buf[:r.end], r.err != nil)
		if r.at, r.ready = 0, done; swapped && r.swapped != nil {
			r.swapped()
		}
	}
	n := copy(p, r.buf[r.at:r.ready])
	r.at += n
	return n, nil
}

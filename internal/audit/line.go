package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"
)

// sum is a hash of the chain. The first line follows the zero one.
type sum [sha256.Size]byte

// A line is {"seq":N, the body, then prev and hash, which always have the same length.
const (
	lineStart = `{"seq":`
	prevStart = `,"prev":"`
	hashStart = `","hash":"`
	lineEnd   = `"}`

	hexSize  = 2 * sha256.Size
	tailSize = len(prevStart) + hexSize + len(hashStart) + hexSize + len(lineEnd)
)

// maxLine bounds a line when reading. What we write is at most a quarter of it.
const maxLine = 64 << 10

// How long the fields of an event can be, escapes included.
const (
	maxWord    = 64
	maxName    = 512
	maxPath    = 1024
	maxText    = 2048
	maxCommand = 4096
)

// appendBody appends what the line says about the event itself.
func appendBody(b []byte, e *Event) []byte {
	b = append(b, `"time":"`...)
	b = e.Time.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","kind":`...)
	b = appendText(b, e.Kind, maxWord)
	b = appendField(b, "host", e.Host, maxName)
	if e.Addr.IsValid() {
		b = appendField(b, "addr", e.Addr.String(), maxName)
	}
	b = appendNumber(b, "port", int64(e.Port))
	b = appendField(b, "protocol", e.Protocol, maxWord)
	b = appendField(b, "verdict", e.Verdict, maxWord)
	b = appendField(b, "rule", e.Rule, maxName)
	b = appendField(b, "reason", e.Reason, maxText)
	b = appendNumber(b, "sent", e.Sent)
	b = appendNumber(b, "received", e.Received)
	b = appendNumber(b, "duration", int64(e.Duration))
	b = appendField(b, "close", e.Close, maxName)
	b = appendField(b, "method", e.Method, maxWord)
	b = appendField(b, "path", e.Path, maxPath)
	b = appendCommand(b, e.Command)
	if e.Exit != nil {
		b = append(b, `,"exit":`...)
		b = strconv.AppendInt(b, int64(*e.Exit), 10)
	}
	b = appendField(b, "user", e.User, maxName)
	b = appendField(b, "detail", e.Detail, maxText)
	return appendNumber(b, "count", e.Count)
}

func appendField(b []byte, name, s string, most int) []byte {
	if s == "" {
		return b
	}
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":`...)
	return appendText(b, s, most)
}

func appendNumber(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":`...)
	return strconv.AppendInt(b, n, 10)
}

func appendCommand(b []byte, args []string) []byte {
	if len(args) == 0 {
		return b
	}
	b = append(b, `,"command":[`...)
	stop := len(b) + maxCommand
	for i, a := range args {
		if i > 0 {
			b = append(b, ',')
		}
		if len(b) > stop {
			b = appendText(b, fmt.Sprintf("…(%d more)", len(args)-i), maxWord)
			break
		}
		b = appendText(b, a, maxPath)
	}
	return append(b, ']')
}

// appendText appends s as a JSON string of printable characters, about as long as most
// at the most.
func appendText(b []byte, s string, most int) []byte {
	b = append(b, '"')
	stop := len(b) + most
	for i := 0; i < len(s); {
		if len(b) >= stop {
			b = fmt.Appendf(b, "…(%d more bytes)", len(s)-i)
			break
		}
		if c := s[i]; c >= 0x20 && c < 0x7f {
			if c == '"' || c == '\\' {
				b = append(b, '\\')
			}
			b = append(b, c)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b = fmt.Appendf(b, `\\x%02x`, s[i])
		case unicode.IsPrint(r):
			b = append(b, s[i:i+n]...)
		case r > 0xffff: // JSON knows these as two halves
			r -= 0x10000
			b = fmt.Appendf(b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
		i += n
	}
	return append(b, '"')
}

// appendLine appends the line of an event that follows the one with the hash prev, and
// returns its own.
func appendLine(b []byte, seq uint64, prev sum, body []byte) ([]byte, sum) {
	start := len(b)
	b = append(b, lineStart...)
	b = strconv.AppendUint(b, seq, 10)
	b = append(b, ',')
	b = append(b, body...)
	b = append(b, prevStart...)
	b = hex.AppendEncode(b, prev[:])
	b = append(b, '"')
	own := sum(sha256.Sum256(b[start:]))
	b = append(b, hashStart[1:]...)
	b = hex.AppendEncode(b, own[:])
	b = append(b, lineEnd...)
	return append(b, '\n'), own
}

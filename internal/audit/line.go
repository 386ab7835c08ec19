package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sum is a hash of the chain. The first line follows the zero one.
type sum [sha256.Size]byte

func (s sum) String() string { return hex.EncodeToString(s[:]) }

// A line is {"seq":N, the event's own fields, then prev and hash, which have a fixed length.
const (
	lineStart = `{"seq":`
	prevStart = `,"prev":"`
	hashStart = `,"hash":"`
	lineEnd   = `"}`

	hexSize  = 2 * sha256.Size
	tailSize = len(prevStart) + hexSize + 1 + len(hashStart) + hexSize + len(lineEnd)
)

// maxLine bounds a line when reading. What we write is at most half of it.
const maxLine = 64 << 10

// How long the fields of an event can be.
const (
	maxWord    = 64
	maxName    = 512
	maxPath    = 1024
	maxText    = 2048
	maxCommand = 4096
)

// encode returns the event as JSON, printable and of bounded length.
func encode(e Event) []byte {
	e.Time = e.Time.UTC()
	e.Kind = clip(e.Kind, maxWord)
	e.Host = clip(e.Host, maxName)
	e.Addr = e.Addr.WithZone(clip(e.Addr.Zone(), maxWord))
	e.Protocol = clip(e.Protocol, maxWord)
	e.Verdict = clip(e.Verdict, maxWord)
	e.Rule = clip(e.Rule, maxName)
	e.Reason = clip(e.Reason, maxText)
	e.Close = clip(e.Close, maxName)
	e.Method = clip(e.Method, maxWord)
	e.Path = clip(e.Path, maxPath)
	e.User = clip(e.User, maxName)
	e.Detail = clip(e.Detail, maxText)
	e.Command = clipCommand(e.Command)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(e) // an event has no field that JSON cannot express
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// clip returns s cut to about most bytes. If anything in it is not printable, it is
// written as in a Go string: \x1b, \u202e.
func clip(s string, most int) string {
	more := len(s) - most
	if more > 0 {
		s = s[:most]
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		quoted := strconv.Quote(s)
		s = quoted[1 : len(quoted)-1]
		if len(s) > most {
			more, s = more+len(s)-most, strings.ToValidUTF8(s[:most], "")
		}
	}
	if more > 0 {
		s += fmt.Sprintf("…(%d more bytes)", more)
	}
	return s
}

func clipCommand(args []string) []string {
	var clipped []string
	size := 0
	for i, a := range args {
		if size > maxCommand {
			return append(clipped, fmt.Sprintf("…(%d more)", len(args)-i))
		}
		a = clip(a, maxPath)
		clipped = append(clipped, a)
		size += len(a) + len(`"",`)
	}
	return clipped
}

// appendLine appends the line of an encoded event that follows the one with the hash
// prev, and returns its own hash.
func appendLine(b []byte, seq uint64, prev sum, event []byte) ([]byte, sum) {
	start := len(b)
	b = append(b, lineStart...)
	b = strconv.AppendUint(b, seq, 10)
	b = append(b, ',')
	b = append(b, event[1:len(event)-1]...)
	b = append(b, prevStart...)
	b = hex.AppendEncode(b, prev[:])
	b = append(b, '"')
	own := sum(sha256.Sum256(b[start:]))
	b = append(b, hashStart...)
	b = hex.AppendEncode(b, own[:])
	b = append(b, lineEnd...)
	return append(b, '\n'), own
}

var (
	errShape  = errors.New("is not an event")
	errSealed = errors.New("was changed: its hash is another")
)

// parseLine reads a line, given without its end. With errSealed it returns the record all
// the same. Fields that it does not know may come from a newer coffer; the hash covers them.
func parseLine(line []byte) (Record, error) {
	cut := len(line) - len(hashStart) - hexSize - len(lineEnd)
	if len(line) > maxLine || cut < 0 || !bytes.HasPrefix(line, []byte(lineStart)) {
		return Record{}, errShape
	}
	rec := Record{line: line}
	if err := json.Unmarshal(line, &rec); err != nil || rec.Seq == 0 || rec.Kind == "" {
		return Record{}, errShape
	}
	tail := prevStart + rec.Prev + `"` + hashStart + rec.Hash + lineEnd
	if !isSum(rec.Prev) || !isSum(rec.Hash) || !bytes.HasSuffix(line, []byte(tail)) {
		return Record{}, errShape
	}
	if sum(sha256.Sum256(line[:cut])) != parseSum(rec.Hash) {
		return rec, errSealed
	}
	return rec, nil
}

func isSum(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && strings.ToLower(s) == s
}

// parseSum decodes what isSum accepts.
func parseSum(s string) (h sum) {
	_, _ = hex.Decode(h[:], []byte(s))
	return h
}

// isWord reports whether a caller can add events of this kind.
func isWord(kind string) bool {
	return kind != "" && len(kind) <= maxWord &&
		!strings.ContainsFunc(kind, func(r rune) bool { return (r < 'a' || r > 'z') && r != '-' })
}

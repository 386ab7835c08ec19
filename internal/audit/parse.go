package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

var (
	errShape  = errors.New("is not an event")
	errSealed = errors.New("was changed: its hash is another")
)

// parseLine reads a line, given without its end. With errSealed the record is there all
// the same. Fields that we do not know may come from a newer coffer and are none of our
// business; the hash is over all of them.
func parseLine(line []byte) (Record, error) {
	tail, ok := parseTail(line)
	if !ok {
		return Record{}, errShape
	}
	rec := Record{line: line}
	if err := json.Unmarshal(line, &rec); err != nil {
		return Record{}, errShape
	}
	// A name that stands twice could make them differ.
	if rec.Prev != tail.prev || rec.Hash != tail.hash || rec.Seq == 0 || rec.Kind == "" {
		return Record{}, errShape
	}
	if !tail.seals(line) {
		return rec, errSealed
	}
	return rec, nil
}

// checkLine is parseLine for one who wants to know only whether the line is in order,
// what it is about, and all of what the log writes about itself. It takes a quarter of
// the time.
func checkLine(line []byte) (Record, error) {
	rec, ok := glance(line)
	if !ok || isOwn(rec.Kind) {
		return parseLine(line)
	}
	tail, ok := parseTail(line)
	if !ok || rec.Seq == 0 || !json.Valid(line) {
		return Record{}, errShape
	}
	rec.Prev, rec.Hash = tail.prev, tail.hash
	if !tail.seals(line) {
		return rec, errSealed
	}
	return rec, nil
}

// glance reads number, time and kind, which we write first, the duration, and nothing
// else.
func glance(line []byte) (rec Record, ok bool) {
	seq, rest, ok := between(line, lineStart, `,"time":"`)
	if !ok {
		return rec, false
	}
	at, rest, ok := between(rest, "", `","kind":"`)
	if !ok {
		return rec, false
	}
	kind, _, ok := between(rest, "", `"`)
	if !ok || len(seq) > 20 || len(at) > 40 || !isWord(kind) {
		return rec, false
	}
	var err1, err2 error
	rec.Seq, err1 = strconv.ParseUint(string(seq), 10, 64)
	rec.Time, err2 = time.Parse(time.RFC3339Nano, string(at))
	rec.Kind = string(kind)
	// No text has this in it: its quotes would be escaped.
	if _, after, ok := bytes.Cut(line, []byte(`,"duration":`)); ok {
		digits, _, _ := bytes.Cut(after[:min(len(after), 20)], []byte(","))
		n, _ := strconv.ParseInt(string(digits), 10, 64)
		rec.Duration = time.Duration(n)
	}
	return rec, err1 == nil && err2 == nil
}

// between returns what stands between start, with which b must begin, and end.
func between(b []byte, start, end string) (found, rest []byte, ok bool) {
	b, ok = bytes.CutPrefix(b, []byte(start))
	if !ok {
		return nil, nil, false
	}
	return bytes.Cut(b, []byte(end))
}

// tail is the end of a line: both its hashes.
type tail struct{ prev, hash string }

// parseTail takes a tail only as we write it. Else two lines could mean the same.
func parseTail(line []byte) (t tail, ok bool) {
	if len(line) > maxLine || len(line) < len(lineStart)+tailSize || !bytes.HasPrefix(line, []byte(lineStart)) {
		return t, false
	}
	text := string(line[len(line)-tailSize:])
	t.prev = text[len(prevStart):][:hexSize]
	t.hash = text[tailSize-len(lineEnd)-hexSize:][:hexSize]
	return t, isSum(t.prev) && isSum(t.hash) && text == prevStart+t.prev+hashStart+t.hash+lineEnd
}

// seals says whether the hash is that of the line.
func (t tail) seals(line []byte) bool {
	own := sum(sha256.Sum256(line[:len(line)-len(lineEnd)-hexSize-len(hashStart)+1]))
	return own == parseSum(t.hash)
}

func isSum(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == hexSize
}

// parseSum is for what isSum accepted.
func parseSum(s string) (h sum) {
	_, _ = hex.Decode(h[:], []byte(s))
	return h
}

// isWord says whether a kind is one that can be added.
func isWord[T string | []byte](kind T) bool {
	for i := range len(kind) {
		if c := kind[i]; (c < 'a' || c > 'z') && c != '-' {
			return false
		}
	}
	return len(kind) > 0 && len(kind) <= maxWord
}

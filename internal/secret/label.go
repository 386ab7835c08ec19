package secret

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// An Entry is what the label says about one secret.
type Entry struct {
	Name string
	Set  time.Time // to the second, UTC
}

// A Label says what is in a vault, in the order of the names.
type Label []Entry

// Find returns the place of a name, and whether it is there; if not, where it would be.
func (l Label) Find(name string) (int, bool) {
	return slices.BinarySearchFunc(l, name, func(e Entry, name string) int { return strings.Compare(e.Name, name) })
}

// Has says whether there is a secret of this name.
func (l Label) Has(name string) bool {
	_, ok := l.Find(name)
	return ok
}

// most is how many secrets there can be, and MaxValue how long each.
const (
	most     = 1000
	MaxValue = 64 << 10
)

// CheckName wants the name of a variable, as secrets become variables.
func CheckName(name string) error {
	if !IsName(name) {
		return fmt.Errorf("%q cannot be the name of a secret: want letters, digits and _, no digit first, 200 at most", name)
	}
	return nil
}

// The vault is an age file. Its label is the body of its first stanza, which other programs skip
// and which is authenticated with the rest of the header. Another version is for another coffer.
const (
	intro      = "age-encryption.org/v"
	ageVersion = "1"
	// stanza is the type of the label's stanza, and stanzaVersion its argument.
	stanza        = "coffer-secrets"
	stanzaVersion = "1"
)

// ErrVersion is for a vault that a newer coffer has written.
var ErrVersion = errors.New("was written by a newer coffer")

var errDamaged = errors.New("is damaged")

// Bytes writes the label.
func (l Label) Bytes() ([]byte, error) {
	if len(l) > most {
		return nil, fmt.Errorf("a vault holds at most %d secrets", most)
	}
	var b []byte
	for _, e := range l {
		b = fmt.Appendf(b, "%s %s\n", e.Name, e.Set.UTC().Format(time.RFC3339))
	}
	return b, nil
}

// parseFile reads the label of a vault's file. One that is not written as Bytes would is refused.
func parseFile(file []byte) (Label, error) {
	first, rest, _ := strings.Cut(string(file), "\n")
	if version, ok := strings.CutPrefix(first, intro); !ok {
		return nil, errDamaged
	} else if version != ageVersion {
		return nil, ErrVersion
	}
	second, rest, _ := strings.Cut(rest, "\n")
	if version, ok := strings.CutPrefix(second, "-> "+stanza+" "); !ok {
		return nil, errDamaged
	} else if version != stanzaVersion {
		return nil, ErrVersion
	}
	var body strings.Builder
	for {
		line, after, ok := strings.Cut(rest, "\n")
		if !ok || len(line) > 64 {
			return nil, errDamaged
		}
		body.WriteString(line)
		if rest = after; len(line) < 64 { // the last line of a stanza is shorter
			break
		}
	}
	text, err := base64.RawStdEncoding.Strict().DecodeString(body.String())
	if err != nil {
		return nil, errDamaged
	}
	return parseLabel(text)
}

func parseLabel(text []byte) (l Label, err error) {
	for line := range bytes.Lines(text) {
		e, err := parseEntry(strings.TrimSuffix(string(line), "\n"))
		if err != nil || len(l) > 0 && l[len(l)-1].Name >= e.Name || len(l) == most {
			return nil, errDamaged
		}
		l = append(l, e)
	}
	if again, err := l.Bytes(); err != nil || !bytes.Equal(again, text) {
		return nil, errDamaged
	}
	return l, nil
}

// Until version 1 of the age file, a vault was a file of coffer's own: a line, the label, an empty
// line, and what was encrypted. The first three were authenticated with that.
const oldIntro = "coffer vault 1\n"

func splitOld(file []byte) (l Label, head, sealed []byte, err error) {
	text, ok := bytes.CutPrefix(file, []byte(oldIntro))
	end := bytes.Index(text, []byte("\n\n")) + 1
	if bytes.HasPrefix(text, []byte("\n")) {
		end = 0
	} else if !ok || end == 0 {
		return nil, nil, nil, errDamaged
	}
	l, err = parseLabel(text[:end])
	cut := len(oldIntro) + end + 1
	return l, file[:min(cut, len(file))], file[min(cut, len(file)):], err
}

func parseEntry(line string) (e Entry, err error) {
	name, set, _ := strings.Cut(line, " ")
	if err := CheckName(name); err != nil {
		return e, err
	}
	e.Name = name
	e.Set, err = time.Parse(time.RFC3339, set)
	return e, err
}

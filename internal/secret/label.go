package secret

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cofferhq/coffer/internal/template"
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
	if !template.IsName(name) {
		return fmt.Errorf("%q cannot be the name of a secret: want letters, digits and _, no digit first, 200 at most", name)
	}
	return nil
}

// version is the first line. Another one is for another coffer.
const (
	magic   = "coffer vault "
	version = "1"
)

// ErrVersion is for a vault that a newer coffer has written.
var ErrVersion = errors.New("was written by a newer coffer")

var errDamaged = errors.New("is damaged")

// Bytes writes the label, as the head of the file.
func (l Label) Bytes() ([]byte, error) {
	if len(l) > most {
		return nil, fmt.Errorf("a vault holds at most %d secrets", most)
	}
	b := []byte(magic + version + "\n")
	for _, e := range l {
		b = fmt.Appendf(b, "%s %s\n", e.Name, e.Set.UTC().Format(time.RFC3339))
	}
	return append(b, '\n'), nil
}

// Split takes a vault's file apart: the label, the bytes that it was read from, and what is
// encrypted. A label that is not written as Bytes would is refused.
func Split(file []byte) (l Label, head, sealed []byte, err error) {
	first, rest, _ := bytes.Cut(file, []byte("\n"))
	number, ok := bytes.CutPrefix(first, []byte(magic))
	switch {
	case !ok:
		return nil, nil, nil, errDamaged
	case string(number) != version && isNumber(number):
		return nil, nil, nil, ErrVersion
	}
	for len(l) <= most {
		line, after, ok := bytes.Cut(rest, []byte("\n"))
		if !ok {
			break
		}
		if rest = after; len(line) == 0 {
			head = file[:len(file)-len(rest)]
			if again, err := l.Bytes(); err != nil || !bytes.Equal(again, head) {
				break
			}
			return l, head, rest, nil
		}
		e, err := parseEntry(string(line))
		if err != nil || len(l) > 0 && l[len(l)-1].Name >= e.Name {
			break
		}
		l = append(l, e)
	}
	return nil, nil, nil, errDamaged
}

func isNumber(b []byte) bool {
	return len(b) > 0 && len(b) < 10 && len(bytes.Trim(b, "0123456789")) == 0
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

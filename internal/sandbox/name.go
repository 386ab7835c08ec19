package sandbox

import (
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/cofferhq/coffer/internal/ui"
)

// Ids leave out i, l, o, 0 and 1, which are hard to tell apart when read aloud
// or copied by hand. The random numbers need to be different, not secret: ids
// are no credentials, and every new one is checked against those that exist.
const (
	idLetters  = "abcdefghjkmnpqrstuvwxyz"
	idAlphabet = idLetters + "23456789"
	idLength   = 8

	// ephemeralLetter starts the ids of throw-aways and of no others, so that
	// the sweep need not open the records of all the rest. The record decides
	// in the end: a throw-away that the user keeps keeps its id too.
	ephemeralLetter = 't'
)

func newID(ephemeral bool) string {
	id := []byte(randomText(idLength))
	if ephemeral {
		id[0] = ephemeralLetter
		return string(id)
	}
	for id[0] = ephemeralLetter; id[0] == ephemeralLetter; {
		id[0] = idLetters[rand.IntN(len(idLetters))]
	}
	return string(id)
}

func randomText(n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = idAlphabet[rand.IntN(len(idAlphabet))]
	}
	return string(text)
}

// validID also keeps paths that are made from an id inside the store.
func validID(s string) bool {
	return len(s) == idLength && strings.IndexByte(idLetters, s[0]) >= 0 && strings.Trim(s, idAlphabet) == ""
}

func bornEphemeral(id string) bool { return id[0] == ephemeralLetter }

const maxName = 64

// ErrName is for an impossible name.
var ErrName = errors.New("bad sandbox name")

// CheckName says whether a sandbox can have this name. There are no capitals because names become
// host and branch names, and a Mac does not tell the cases apart.
func CheckName(name string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789._-"
	if name != "" && len(name) <= maxName && strings.Trim(name, allowed) == "" && name[0] != '-' && name[0] != '.' {
		return nil
	}
	return fmt.Errorf("%w %q: use 1 to %d of a-z, 0-9, '.', '_' and '-', starting with a letter, a digit or '_'", ErrName, ui.Clip(name, maxName), maxName)
}

var (
	//go:embed adjectives.txt
	adjectives string
	//go:embed nouns.txt
	nouns string
)

// newName picks a name that is not taken, with a tail in a crowded store.
func newName(taken map[string]bool) string {
	as, ns := strings.Fields(adjectives), strings.Fields(nouns)
	for try := 0; ; try++ {
		name := as[rand.IntN(len(as))] + "-" + ns[rand.IntN(len(ns))]
		if try >= 16 {
			name += "-" + randomText(3)
		}
		if !taken[name] {
			return name
		}
	}
}

package git

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Of too many refs none is fetched, however their lines arrive; a pack may have any number of
// lines.
func TestRefCount(t *testing.T) {
	line := func(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }
	refs := func(n int) string { return strings.Repeat(line(strings.Repeat("1", 40)+" refs/heads/x\n"), n) + "0000" }
	for _, tt := range []struct {
		name, text string
		many       bool
	}{
		{"few", refs(100), false},
		{"many", refs(maxFetchedRefs + 1), true},
		{"a pack of many lines", refs(2) + line("packfile\n") + strings.Repeat(line("\x01x"), maxFetchedRefs+1), false},
	} {
		for _, piece := range []int{1, 7, 1 << 16} {
			var out bytes.Buffer
			c, err := &upload{w: &out, left: maxFetch}, error(nil)
			for rest := []byte(tt.text); len(rest) > 0 && err == nil; rest = rest[min(piece, len(rest)):] {
				_, err = c.Write(rest[:min(piece, len(rest))])
			}
			if errors.Is(err, errRefs) != tt.many || !tt.many && (err != nil || out.String() != tt.text) {
				t.Errorf("%s in pieces of %d: %v, %d bytes of %d", tt.name, piece, err, out.Len(), len(tt.text))
			}
		}
	}
	if _, err := (&upload{w: &bytes.Buffer{}, left: maxFetch}).Write([]byte("what?")); err == nil {
		t.Error("a line without a length was passed on")
	}
}

package git

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestAdditions(t *testing.T) {
	const meta = ":000000 100644 0 1 A\x00"
	text := "c1\x00\n" + meta + ".env\x00" + meta + ":x\ny\x00c2\x00c3\x00\n" + meta + "d/k.key\x00" + meta + "cut off"
	var got []Addition
	if _, err := additions(strings.NewReader(text), func(a Addition) bool { got = append(got, a); return true }); err != nil {
		t.Fatal(err)
	}
	if want := []Addition{{"c1", ".env"}, {"c1", ":x\ny"}, {"c3", "d/k.key"}}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	n := 0
	if enough, err := additions(strings.NewReader(text), func(Addition) bool { n++; return false }); !enough || err != nil || n != 1 {
		t.Errorf("it goes on for %d, %v", n, err)
	}
}

// FuzzAdditions: what git prints is of a repository that a stranger may have made.
func FuzzAdditions(f *testing.F) {
	f.Add([]byte("c1\x00\n:000000 100644 0 1 A\x00.env\x00"))
	f.Add([]byte(":\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = additions(bytes.NewReader(data), func(a Addition) bool {
			if a.Commit == "" {
				t.Error("a file without a commit")
			}
			return true
		})
	})
}

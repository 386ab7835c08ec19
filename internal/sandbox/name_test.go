package sandbox

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	good := []string{"a", "0", "_x", "calm-otter", "web.2", "a_b", strings.Repeat("a", 64), "tb3defgh"}
	bad := []string{"", "-rf", ".hidden", "..", "a/b", "/", "A", "Web", "a b", "a\n", "\x1b[2J", "é", "a\x00",
		"a\xff", strings.Repeat("a", 65), strings.Repeat("é", 5000)}
	for _, name := range good {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range bad {
		err := CheckName(name)
		if !errors.Is(err, ErrName) {
			t.Errorf("%q: got %v, want ErrName", name, err)
			continue
		}
		if text := err.Error(); !strings.Contains(text, "a-z") || strings.ContainsAny(text, "\x1b\n") || len(text) > 600 {
			t.Errorf("%q: unhelpful: %q", name, text)
		}
	}
}

func TestWords(t *testing.T) {
	for file, list := range map[string]string{"adjectives": adjectives, "nouns": nouns} {
		seen := map[string]bool{}
		for _, word := range strings.Fields(list) {
			if seen[word] {
				t.Errorf("%s: %s twice", file, word)
			}
			seen[word] = true
			if CheckName(word) != nil || len(word) > 12 {
				t.Errorf("%s: bad word %q", file, word)
			}
		}
		if len(seen) != 120 {
			t.Errorf("%s: %d words", file, len(seen))
		}
	}
}

func TestNewID(t *testing.T) {
	for range 2000 {
		if id := newID(true); !validID(id) || !bornEphemeral(id) {
			t.Fatalf("bad throw-away id %q", id)
		}
		if id := newID(false); !validID(id) || bornEphemeral(id) {
			t.Fatalf("bad id %q", id)
		}
	}
	for _, id := range []string{"", "abc", "2bcdefgh", "abcdefg/", "abcdefgi", "abcdefg\xff", "../../ab", "ABCDEFGH", "abcdefghj"} {
		if validID(id) {
			t.Errorf("%q taken for an id", id)
		}
	}
}

func TestNewNameInACrowd(t *testing.T) {
	taken := map[string]bool{}
	for _, a := range strings.Fields(adjectives) {
		for _, n := range strings.Fields(nouns) {
			taken[a+"-"+n] = true
		}
	}
	for range 100 {
		name := newName(taken)
		if taken[name] || CheckName(name) != nil {
			t.Fatalf("bad name %q", name)
		}
		taken[name] = true
	}
}

package terminal

import (
	"encoding/json"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestEscape(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"plain text", "plain text"},
		{"Größe 漢字 🎉", "Größe 漢字 🎉"},
		{"e\u0301", "e\u0301"},
		{"a\r\nb\tc\x00\x1b[31m\x7f", `a\x0d\x0ab\x09c\x00\x1b[31m\x7f`},
		{"\u009b21t\x9b21t", `\u009b21t\x9b21t`},
		{"txt.\u202eexe\u2066\u200f", `txt.\u202eexe\u2066\u200f`},
		{"a\u200bb\u00adc\ufeff\u2028\u00a0", `a\u200bb\u00adc\ufeff\u2028\u00a0`},
		{"\xff\xe2\x82", `\xff\xe2\x82`},
		{"\ufffd", "\ufffd"},
		{"\U000e0041", `\U000e0041`},
		{"\u3164\u2800", `\u3164\u2800`},
		{"a\ufe0f\u180b\u034f", `a\ufe0f\u180b\u034f`},
		{`C:\x1b`, `C:\\x1b`},
	} {
		if got := Escape(c.in); got != c.want {
			t.Errorf("Escape(%q) = %s, want %s", c.in, got, c.want)
		}
	}
}

func TestContent(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"\tprintf(\"a\\n\")":       "\tprintf(\"a\\n\")",
		"\tgrüße, 世界":              "\tgrüße, 世界",
		"a\x1b[A\x1b[2Kb":          `a\x1b[A\x1b[2Kb`,
		"a\r":                      `a\x0d`,
		"C1: \u009b2K":             `C1: \u009b2K`,
		"if \u202e(x)":             `if \u202e(x)`,
		"zero\u200bwidth\xff\t\\n": "zero\\u200bwidth\\xff\t\\n",
	} {
		if got := Content(in); got != want {
			t.Errorf("Content(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"/usr/share (read-only)": "/usr/share (read-only)",
		"\u0430pi":               `\u0430pi`, // Cyrillic
		"Größe \u202e🎉\x1b\xff":  `Gr\u00f6\u00dfe \u202e\U0001f389\x1b\xff`,
	} {
		if got := Plain(in); got != want {
			t.Errorf("Plain(%q) = %s, want %s", in, got, want)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("\x1b[31m\u202e\xff")
	f.Fuzz(func(t *testing.T, s string) {
		got := Escape(s)
		if !utf8.ValidString(got) {
			t.Fatalf("Escape(%q) = %q is not valid UTF-8", s, got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Fatalf("Escape(%q) = %q holds %U", s, got, r)
			}
		}
	})
}

// What JSON prints has nothing a terminal obeys, and means the same.
func TestJSON(t *testing.T) {
	for _, s := range []string{"", "plain é 漢字 \\ \" <&>", "\x1b[31m\x7f\u009b21t", "a\u202eb\u2066\u200b\ufeff\u2028", "tag \U000e0041", "\xff"} {
		plain, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		shown := JSON(plain)
		for _, r := range string(shown) {
			if r < 0x20 || r >= del && !isVisible(r) {
				t.Errorf("%q is shown with %U", s, r)
			}
		}
		var was, is string
		if json.Unmarshal(plain, &was) != nil || json.Unmarshal(shown, &is) != nil || was != is {
			t.Errorf("%s became %s", plain, shown)
		}
	}
}

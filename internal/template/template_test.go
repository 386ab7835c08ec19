package template

import (
	"slices"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	env := map[string]string{"A": "1", "EMPTY": "", "DOLLAR": "${A}", "LONG": strings.Repeat("x", 1000)}
	lookup := func(n string) (string, bool) { v, ok := env[n]; return v, ok }
	for in, want := range map[string]string{
		"":                             "",
		"plain":                        "plain",
		"${A}":                         "1",
		"a${A}b${A}c":                  "a1b1c",
		"${NONE:-x}":                   "x",
		"${EMPTY:-x}":                  "x",
		"${EMPTY}":                     "",
		"${NONE:-}":                    "",
		"${A:-${NONE}}":                "1",
		"${NONE:-${OTHER:-${A}}}":      "1",
		"${NONE:-a${OTHER:-b}c}d":      "abcd",
		"$$":                           "$",
		"$${A}":                        "${A}",
		"$$${A}":                       "$1",
		"$A $ $5":                      "$A $ $5",
		"}":                            "}",
		"${DOLLAR}":                    "${A}", // a value is not a template
		"${NONE:-{}}":                  "{}",
		"${NONE}":                      "error: NONE",
		"${NONE:-${OTHER}}":            "error: OTHER",
		"${A":                          "error: }",
		"${A:-":                        "error: closed",
		"${}":                          "error: without",
		"${1A}":                        "error: without",
		"${A B}":                       "error: neither",
		"${A:x}":                       "error: neither",
		strings.Repeat("${A:-", 20):    "error: deep",
		strings.Repeat("${LONG}", 200): "error: longer",
	} {
		got, err := Expand(in, lookup)
		if after, bad := strings.CutPrefix(want, "error: "); bad {
			if err == nil || !strings.Contains(err.Error(), after) {
				t.Errorf("%.40q: got %.40q, %v, want an error about %q", in, got, err, after)
			}
		} else if err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", in, got, err, want)
		}
	}
	names, err := Mentions("${A:-${B}} $C $${D} ${E}")
	if err != nil || !slices.Equal(names, []string{"A", "B", "E"}) {
		t.Errorf("mentions %v, %v", names, err)
	}
}

// A template never panics, never grows without bound, and reads no other variables than
// it says.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"${A}", "${A:-${B:-c}}", "$$", "${", "${A:-", "$${A}}", "${A:-}}${B}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		names, err := Mentions(s)
		var asked []string
		out, err2 := Expand(s, func(n string) (string, bool) { asked = append(asked, n); return "v", true })
		if (err == nil) != (err2 == nil) && len(s) < maxValue/2 {
			t.Fatalf("%q: %v but %v", s, err, err2)
		}
		if len(out) > len(s)+maxValue {
			t.Fatalf("%q became %d bytes", s, len(out))
		}
		for _, n := range asked {
			if err == nil && !slices.Contains(names, n) {
				t.Fatalf("%q reads %q, which is not among %q", s, n, names)
			}
			if !IsName(n) && len(n) <= 200 {
				t.Fatalf("%q reads %q", s, n)
			}
		}
	})
}

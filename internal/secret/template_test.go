package secret

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	env := map[string]string{"A": "1", "EMPTY": "", "DOLLAR": "${A}", "LONG": strings.Repeat("x", 1000)}
	var asked []Ref
	lookup := func(r Ref) (string, bool, error) {
		asked = append(asked, r)
		switch {
		case r.Name == "SHUT":
			return "", false, errors.New("is shut")
		case r == Ref{"S", true}:
			return "*", true, nil
		case r.Secret:
			return "", false, nil
		}
		v, ok := env[r.Name]
		return v, ok, nil
	}
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
		"${secret:S}":                  "*",
		"a${secret:S:-x}b":             "a*b",
		"${secret:A:-x}":               "x",
		"${secret:A:-${secret:S}}":     "*",
		"${secret:-x}":                 "x", // a variable of that name
		"${NONE}":                      "error: variable NONE",
		"${secret:A}":                  "error: secret A, which is not in your vault",
		"${secret:SHUT:-x}":            "error: is shut",
		"${A:-${SHUT}}":                "1", // is not looked up
		"${secret:}":                   "error: neither",
		"${secret:1}":                  "error: neither",
		"${Secret:S}":                  "error: neither",
		"${secret:S:x}":                "error: neither",
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
	asked = nil
	if _, err := Expand("${A:-${B}${secret:S}}", lookup); err != nil || len(asked) != 1 {
		t.Errorf("asked for %v, %v", asked, err)
	}
	refs, err := Mentions("${A:-${B}} $C $${D} ${E:-${secret:F}}")
	if want := []Ref{{Name: "A"}, {Name: "B"}, {Name: "E"}, {"F", true}}; err != nil || !slices.Equal(refs, want) {
		t.Errorf("mentions %v, %v", refs, err)
	}
}

// A template never panics, never grows without bound, and reads no other variables than
// it says.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"${A}", "${A:-${B:-c}}", "$$", "${", "${A:-", "$${A}}", "${A:-}}${B}", "${secret:A:-${secret}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		refs, err := Mentions(s)
		var asked []Ref
		out, err2 := Expand(s, func(r Ref) (string, bool, error) { asked = append(asked, r); return "v", true, nil })
		if (err == nil) != (err2 == nil) && len(s) < maxExpanded/2 {
			t.Fatalf("%q: %v but %v", s, err, err2)
		}
		if len(out) > len(s)+maxExpanded {
			t.Fatalf("%q became %d bytes", s, len(out))
		}
		for _, r := range asked {
			if err == nil && !slices.Contains(refs, r) {
				t.Fatalf("%q reads %v, which is not among %v", s, r, refs)
			}
			if !IsName(r.Name) && len(r.Name) <= 200 {
				t.Fatalf("%q reads %v", s, r)
			}
		}
	})
}

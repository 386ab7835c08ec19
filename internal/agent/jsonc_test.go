package agent

import (
	"encoding/json"
	"testing"
)

func TestStripComments(t *testing.T) {
	for in, want := range map[string]string{
		`{"a": 1}`:                          `{"a": 1}`,
		"// c\n{\"a\": /* no */ 1, // x\n}": "\n{\"a\":   1}",
		`["a,]", "//", "/*", "\"//", 1 , ]`: `["a,]", "//", "/*", "\"//", 1 ]`,
		`{"a": [1,],}`:                      `{"a": [1]}`,
		`/*/ still one */ 1`:                `  1`,
		`1 /* open`:                         `1 `,
		`"open \`:                           `"open \`,
		`{"a": 1/2}`:                        `{"a": 1/2}`,
		"{\"url\": \"https://example.com\"} // x": `{"url": "https://example.com"} `,
	} {
		if got := string(StripComments([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// What is JSON already means the same afterwards.
func FuzzStripComments(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":"//"}]}`, "[1, // x\n]", `"\\"`, `/*`, `"\`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out := StripComments(in)
		if json.Valid(in) && string(out) != string(in) {
			t.Errorf("%q became %q", in, out)
		}
	})
}
